"""Mini-batches (s, g, k, s_k, hit) of the Length Predictor, built by tensor operations over the whole dataset."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from vhdiffuser.length.config import GoalMixture


@dataclass(frozen=True)
class Batch:
    """One mini-batch of B pairs. States and goals are normalised."""

    t: torch.Tensor
    """(B,) dataset index of the start."""
    u: torch.Tensor
    """(B,) dataset index of the state whose goal dimensions are the goal."""
    s: torch.Tensor
    """(B, d) start states."""
    g: torch.Tensor
    """(B, goal_dim) goals."""
    g_state: torch.Tensor
    """(B, d) states whose goal dimensions are the goals."""
    k: torch.Tensor
    """(B,) steps from s to s_k along s's episode."""
    s_k: torch.Tensor
    """(B, d): the first state within epsilon of g if `hit`, otherwise the k-step successor."""
    hit: torch.Tensor
    """(B,) bool: whether s's episode reaches g within T_max steps."""


class PairSampler:
    """Draws batches from concatenated episodes, on the device that holds them."""

    def __init__(
        self, states: torch.Tensor, ends: torch.Tensor, goal_dims: tuple[int, ...], epsilon: float, T_max: int
    ) -> None:
        """states: (N, d) normalised; ends: (E,) index one past each episode's last state."""
        self.states = states
        self.epsilon = epsilon
        self.T_max = T_max
        self.goal_dims = list(goal_dims)
        lengths = torch.diff(ends, prepend=ends.new_zeros(1))
        self.last = torch.repeat_interleave(ends - 1, lengths)  # (N,) last index of each state's episode
        self._transitions = torch.cumsum(lengths - 1, dim=0)  # (E,)
        # Padded with infinity, which is within epsilon of nothing, since windows may extend past the end of the data.
        padding = states.new_full((T_max, len(goal_dims)), torch.inf)
        goals = torch.cat([states[:, self.goal_dims], padding])
        self._windows = goals.unfold(0, T_max, 1)  # (N + 1, goal_dim, T_max), a view
        self._by_region: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None = None

    @property
    def device(self) -> torch.device:
        """Device of the data and the batches."""
        return self.states.device

    def goals_at(self, index: torch.Tensor) -> torch.Tensor:
        """Goals of states, (...,) indices -> (..., goal_dim)."""
        return self.states[index][..., self.goal_dims]

    def divide(self, region: torch.Tensor) -> None:
        """Enable uniform draws over regions: sets each state's region (N,); every region must contain a state."""
        sizes = torch.bincount(region.long())
        self._by_region = torch.argsort(region), torch.cumsum(sizes, dim=0) - sizes, sizes

    def draw_states(self, count: int, generator: torch.Generator, even: float = 0.0) -> torch.Tensor:
        """(count,) indices of states (the global pool): a fraction `even` uniform over regions, the rest uniform over
        states.

        The data is dense where the behaviour policy lingers; queries are not.
        """
        index = torch.randint(len(self.states), (count,), generator=generator, device=self.device)
        if even == 0 or self._by_region is None:
            return index
        order, first, sizes = self._by_region
        region = torch.randint(len(sizes), (count,), generator=generator, device=self.device)
        place = torch.rand(count, generator=generator, device=self.device, dtype=torch.float64) * sizes[region]
        evenly = torch.rand(count, generator=generator, device=self.device) < even
        return torch.where(evenly, order[first[region] + place.long().clamp(max=sizes[region] - 1)], index)

    def draw_starts(self, count: int, generator: torch.Generator, even: float = 0.0) -> torch.Tensor:
        """(count,) indices of states with a successor; `even` as in `draw_states`."""
        if even == 0 or self._by_region is None:
            total = int(self._transitions[-1])
            number = torch.randint(total, (count,), generator=generator, device=self.device)  # n-th transition
            # Each episode before it has one state more than it has transitions.
            return number + torch.searchsorted(self._transitions, number, right=True)
        t = self.draw_states(count, generator, even)
        return torch.where(t == self.last[t], t - 1, t)

    def draw_goals(
        self, t: torch.Tensor, mixture: GoalMixture, generator: torch.Generator, even: float = 0.0
    ) -> torch.Tensor:
        """(B,) indices of goal states for starts t."""
        weights = torch.tensor([mixture.endpoint, mixture.local, mixture.far], dtype=torch.float32, device=self.device)
        source = torch.multinomial(weights, len(t), replacement=True, generator=generator)
        reach = (self.last[t] - t).clamp(max=self.T_max)  # (B,) furthest local goal
        uniform = torch.rand(len(t), generator=generator, device=self.device)
        local = t + 1 + (uniform * reach).long().clamp(max=reach - 1)
        far = self.draw_states(len(t), generator, even)
        return torch.where(source == 0, self.last[t], torch.where(source == 1, local, far))

    def first_hit(self, t: torch.Tensor, g: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Steps from state t (B,) to the first state of its episode within epsilon of g (B, goal_dim).

        0 if the start itself is; looks at most T_max steps ahead and never past the episode's end.
        Returns (B,) steps and (B,) whether there is such a state.
        """
        near = ((self._windows[t + 1] - g[:, :, None]).abs() <= self.epsilon).all(dim=1)  # (B, T_max)
        ahead = torch.arange(1, self.T_max + 1, device=self.device)
        near &= ahead <= (self.last[t] - t)[:, None]
        steps = near.int().argmax(dim=1) + 1  # argmax gives the first of equals
        here = ((self.goals_at(t) - g).abs() <= self.epsilon).all(dim=1)
        return torch.where(here, 0, steps), near.any(dim=1) | here

    def links(self, t: torch.Tensor, links: tuple[int, ...]) -> torch.Tensor:
        """(B, |K|) steps of each link from states t (B,), clipped at the episode's end."""
        return torch.minimum(torch.tensor(links, device=self.device), (self.last[t] - t)[:, None])

    def draw(
        self,
        count: int,
        mixture: GoalMixture,
        links: tuple[int, ...],
        generator: torch.Generator,
        even: float = 0.0,
    ) -> Batch:
        """Draw a mini-batch; without a hit, k is drawn from the link set K, clipped at the episode's end."""
        t = self.draw_starts(count, generator, even)
        u = self.draw_goals(t, mixture, generator, even)
        g = self.goals_at(u)
        steps, hit = self.first_hit(t, g)
        choice = torch.randint(len(links), (count, 1), generator=generator, device=self.device)
        link = self.links(t, links).gather(1, choice)[:, 0]
        k = torch.where(hit, steps, link)
        return Batch(t, u, self.states[t], g, self.states[u], k, self.states[t + k], hit)
