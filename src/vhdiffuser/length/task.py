"""Training of the Length Predictor: one mini-batch, five losses (eq. total-loss)."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from vhdiffuser.length.batches import Batch, PairSampler
from vhdiffuser.length.config import LengthConfig, goal_dims
from vhdiffuser.length.curriculum import Curriculum, PhaseConfig
from vhdiffuser.length.losses import L_TD, L_bdry, L_clip, L_cons, L_triangle, relay_target, target
from vhdiffuser.length.network import FourierEncoder, MakeEncoder, make_length_network
from vhdiffuser.length.relays import RelayGraph
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.types import EnvSpec, Episodes
from vhdiffuser.weights.format import ModelHeader


class LengthTask:
    """The Length Predictor as a task of the training loop; its EMA network is the paper's f with theta-bar."""

    def __init__(
        self,
        episodes: Episodes,
        spec: EnvSpec,
        config: LengthConfig,
        normalizer: Normalizer,
        data_fingerprint: str,
        device: torch.device | str = "cpu",
        make_encoder: MakeEncoder = FourierEncoder,
    ) -> None:
        self.spec = spec
        self.config = config
        self.normalizer = normalizer
        self.data_fingerprint = data_fingerprint
        self.make_encoder = make_encoder
        self.goal_dims = goal_dims(spec, config)
        states = torch.from_numpy(normalizer.normalize(spec.planning_state(episodes.observations))).to(device)
        ends = torch.from_numpy(episodes.ends).to(device)
        self.sampler = PairSampler(states, ends, self.goal_dims, spec.epsilon, spec.T_max)
        self.graph = None
        if config.relay_graph is not None:
            self.graph = RelayGraph(states[:, list(self.goal_dims)], self.sampler.last, spec.T_max, config.relay_graph)
            self.sampler.divide(self.graph.region)
        self.curriculum = Curriculum(config.phases, config.plateau, config.ramp)
        self.tau = torch.tensor(config.quantiles, device=device)

    def make_network(self) -> nn.Module:
        """Create f_theta."""
        return make_length_network(self.spec, self.config, self.make_encoder, self.normalizer)

    def loss(
        self, network: nn.Module, ema: nn.Module, generator: torch.Generator, update: int
    ) -> tuple[torch.Tensor, dict[str, float | torch.Tensor]]:
        """Eq. (total-loss) on a fresh mini-batch."""
        config, T_max = self.config, self.spec.T_max
        phase = self.curriculum.current
        lambda_cons, lambda_triangle = self.curriculum.weights(update)
        batch = self.sampler.draw(config.batch, phase.goals, phase.links, generator, phase.even)

        # One call for f(s, g) and f(g, g): a wrapped network needs a single forward pass per update.
        both = network(torch.cat([batch.s, batch.g_state]), torch.cat([batch.g, batch.g]))  # (2B, quantiles)
        quantiles, f_gg = both[: config.batch], both[config.batch :]
        f = quantiles[:, 0]  # (B,)
        with torch.no_grad():
            quantiles_k = ema(batch.s_k, batch.g)  # (B, quantiles)
            if not config.bootstrap_at_hit:
                quantiles_k = torch.where(batch.hit[:, None], 0.0, quantiles_k)
            y = target(batch.k[:, None], batch.hit[:, None], quantiles_k, T_max)  # (B, quantiles)
            if phase.graph and self.graph is not None:
                way = self.graph.bound(batch.t, self.sampler.links(batch.t, phase.links), batch.u) / T_max
                y = relay_target(y, batch.hit[:, None], way[:, None])

        td = L_TD(quantiles, y, self.tau, config.kappa)
        cons = L_cons(f, batch.k, quantiles_k[:, 0], T_max)
        triangle = f.new_zeros(())
        if lambda_triangle > 0:
            triangle = L_triangle(f, *self._relay(batch, f.detach(), quantiles_k[:, 0], ema, phase, generator))
        bdry = L_bdry(f_gg)
        clip = L_clip(quantiles)
        total = (
            td + lambda_cons * cons + lambda_triangle * triangle + config.lambda_bdry * bdry + config.lambda_clip * clip
        )

        with torch.no_grad():
            hits = batch.hit.float()
            anchor_error = ((f - y[:, 0]).abs() * hits).sum() / hits.sum().clamp(min=1)
        metrics: dict[str, float | torch.Tensor] = {
            "L_TD": td.detach(),
            "L_cons": cons.detach(),
            "L_triangle": triangle.detach(),
            "L_bdry": bdry.detach(),
            "L_clip": clip.detach(),
            "phase": float(self.curriculum.phase + 1),
            "lambda_cons": lambda_cons,
            "lambda_triangle": lambda_triangle,
            "anchor_error_steps": anchor_error * T_max,
            "anchor_share": hits.mean(),
            "mean_steps": f.detach().mean() * T_max,
        }
        return total, metrics

    def observe(self, scalars: dict[str, torch.Tensor], update: int) -> None:
        """Pass the anchor error to the curriculum."""
        self.curriculum.observe(scalars["anchor_error_steps"] / self.spec.T_max, update)

    @torch.no_grad()
    def _relay(
        self,
        batch: Batch,
        f: torch.Tensor,
        f_bar_k: torch.Tensor,
        ema: nn.Module,
        phase: PhaseConfig,
        generator: torch.Generator,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """f_bar(s, h) and f_bar(h, g) for one relay h per pair: s_k, or a mined semi-hard candidate.

        Semi-hard: of the candidates whose bound undercuts f(s, g) by at most the margin, take the one that undercuts it
        most. The others are ignored, since the minimum of many noisy estimates is biased low.
        """
        on_path = ema(batch.s, batch.s_k[:, self.sampler.goal_dims])[:, 0]  # (B,) f_bar(s, s_k)
        if phase.relay_share == 0:
            return on_path, f_bar_k
        B, R = len(batch.s), phase.relays
        device = self.sampler.device
        pool = self.sampler.states[self.sampler.draw_states(B * R, generator, phase.even)]  # (B*R, d)
        near = batch.g_state[torch.randint(B, (B * R,), generator=generator, device=device)]
        from_pool = torch.rand(B * R, generator=generator, device=device) < self.config.pool_share
        h = torch.where(from_pool[:, None], pool, near)  # (B*R, d)
        sh = ema(batch.s.repeat_interleave(R, 0), h[:, self.sampler.goal_dims])[:, 0].view(B, R)
        hg = ema(h, batch.g.repeat_interleave(R, 0))[:, 0].view(B, R)
        undercut = f[:, None] - (sh + hg)  # (B, R)
        undercut = torch.where((undercut > 0) & (undercut <= phase.margin), undercut, -torch.inf)
        best, choice = undercut.max(dim=1, keepdim=True)
        mined = torch.rand(B, generator=generator, device=device) < phase.relay_share
        mined &= best[:, 0] > 0
        return (
            torch.where(mined, sh.gather(1, choice)[:, 0], on_path),
            torch.where(mined, hg.gather(1, choice)[:, 0], f_bar_k),
        )

    def state(self) -> dict[str, Any]:
        """State of the curriculum."""
        return self.curriculum.state()

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore `state()`."""
        self.curriculum.load_state(state)

    def header(self) -> ModelHeader:
        """Header of the model file."""
        return ModelHeader(
            kind="length",
            spec=self.spec.to_json(),
            config=self.config.to_json(),
            normalizer=self.normalizer.to_json(),
            data_fingerprint=self.data_fingerprint,
            notes={"phases_began": self.curriculum.starts},
        )
