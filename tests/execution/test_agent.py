"""An agent in somebody else's loop does what the executor does, and takes a new goal at any time."""

from __future__ import annotations

import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from toy_point import ENVIRONMENT, SPEED, ToyController, ToyEnv, ToyPlanner, instance

from vhdiffuser.envs.protocols import (
    ExecutionRule,
    fixed_episode,
    replan_every,
    replan_on_deviation,
    single_shot,
)
from vhdiffuser.errors import VhdError
from vhdiffuser.execution.agent import Agent
from vhdiffuser.execution.drive import drive
from vhdiffuser.execution.executor import Executor
from vhdiffuser.execution.simulators import Simulators
from vhdiffuser.planner.load import load_planner


def run(agent: Agent, env: ToyEnv, start: tuple[float, float], most: int = 100) -> None:
    """A control loop as a user writes it."""
    observation = env.reset(instance(start, start))
    for _ in range(most):
        action = agent.act(observation.tolist())
        if agent.done:
            return
        observation = env.step(action)


RULES = {
    "single-shot": single_shot(),
    "deviation": replan_on_deviation(40, 0.06, 2),
    "every": replan_every(3, 40),
    "fixed": fixed_episode(25),
    "hits do not end it": ExecutionRule(threshold=0.06, budget=30, stop_at_hit=False),
}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize("push", [-1, 4])
def test_an_agent_does_what_the_executor_does(rule: ExecutionRule, push: int) -> None:
    cases = [instance((0.1, 0.1), (0.9, 0.5)), instance((0.5, 0.5), (0.52, 0.5)), instance((0.9, 0.0), (0.0, 0.4))]
    executor = Executor(ToyPlanner(noise=0.05), ToyController(), Simulators(lambda: ToyEnv(push), 3), rule, seed=5)
    expected = {item.number: item.rollout for item in executor.run(cases)}
    agent = Agent(ToyPlanner(noise=0.05), ToyController(), rule, seed=5)
    for number, case in enumerate(cases):  # the episodes of an agent are numbered as the executor's instances
        agent.reset(case.goal)
        run(agent, ToyEnv(push), tuple(case.start))
        assert agent.done
        assert agent.rollout() == expected[number]


def test_a_new_goal_is_planned_for_at_the_next_act() -> None:
    agent, env = Agent(ToyPlanner(), ToyController()), ToyEnv()
    agent.reset([1.0, 0.0])
    observation = env.reset(instance((0.0, 0.0), (1.0, 0.0)))
    for _ in range(4):
        observation = env.step(agent.act(observation))
    agent.goal = [0.4, 0.5]
    action = agent.act(observation)
    while not agent.done:
        action = agent.act(env.step(action))
    assert agent.reached
    assert [(step, plan.goal.tolist()) for step, plan in agent.plans] == [
        (0, [1.0, 0.0]),
        (4, pytest.approx([0.4, 0.5])),
    ]
    assert agent.steps == 4 + 5


def test_a_goal_set_after_the_end_begins_again() -> None:
    agent, env = Agent(ToyPlanner(), ToyController(), single_shot()), ToyEnv()
    agent.reset([0.3, 0.0])
    run(agent, env, (0.0, 0.0))
    assert agent.done
    assert agent.reached
    before = agent.plan
    action = agent.act(env.step(np.zeros(2)))
    assert agent.plan is before, "it holds, and plans no more"
    np.testing.assert_allclose(action, 0.0, atol=1e-6)
    agent.goal = [0.9, 0.9]
    assert not agent.done
    assert not agent.reached
    agent.act(env.step(action))
    assert agent.plan is not None
    np.testing.assert_allclose(agent.plan.goal, [0.9, 0.9])


def test_without_a_budget_it_never_gives_up() -> None:
    agent = Agent(ToyPlanner(), ToyController())
    agent.reset([1.0, 1.0])
    run(agent, ToyEnv(stuck=True), (0.0, 0.0), most=3 * ENVIRONMENT.step_budget)
    assert not agent.done
    assert agent.steps == 3 * ENVIRONMENT.step_budget - 1


def test_latency_is_told_for_each_act(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock on which a plan takes 6 s and an action 2 s."""
    now = [0.0]

    class SlowPlanner(ToyPlanner):
        def plan_batch(self, *values, **named):
            now[0] += 6.0
            return super().plan_batch(*values, **named)

    class SlowController(ToyController):
        def act(self, *values):
            now[0] += 2.0
            return super().act(*values)

    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    agent = Agent(SlowPlanner(), SlowController(), replan_every(2))
    agent.warm_up()
    agent.reset([1.0, 0.0])
    run(agent, ToyEnv(), (0.0, 0.0), most=4)
    assert [tuple(item) for item in agent.latencies] == [(6, 2), (0, 2), (6, 2), (0, 2)]
    assert [item.total for item in agent.latencies] == [8, 2, 8, 2]
    agent.reset([1.0, 0.0])
    assert agent.latencies == ()


def test_warming_up_leaves_no_trace() -> None:
    warm, cold = (Agent(ToyPlanner(noise=0.05), ToyController(), replan_every(2, 40)) for _ in range(2))
    warm.warm_up()
    for agent in (warm, cold):
        agent.reset([1.0, 0.5])
        run(agent, ToyEnv(), (0.0, 0.0))
    assert warm.rollout() == cold.rollout()
    assert len(warm.latencies) == len(cold.latencies)


@pytest.mark.parametrize("goal", [[1.0], [1.0, np.nan], [[1.0, 0.0]]])
def test_goals_that_are_none_are_refused(goal: list) -> None:
    agent = Agent(ToyPlanner(), ToyController())
    with pytest.raises(VhdError, match="2 finite numbers .x, y"):
        agent.reset(goal)
    agent.reset([1.0, 0.0])
    with pytest.raises(VhdError, match="2 finite numbers .x, y"):
        agent.goal = goal


def test_misuse_is_told() -> None:
    agent = Agent(ToyPlanner(), ToyController())
    with pytest.raises(VhdError, match=r"reset\(goal\)"):
        agent.act([0.0, 0.0])
    with pytest.raises(VhdError, match="act"):
        agent.rollout()
    agent.reset([1.0, 0.0])
    with pytest.raises(VhdError, match="2 numbers"):
        agent.act([0.0, 0.0, 0.0])
    with pytest.raises(VhdError, match="NaN"):
        agent.act([0.0, np.inf])


class GoalEnv(gymnasium.Env):
    """The toy point with observations as Gymnasium-Robotics makes them; the goal may move, the clock may end."""

    def __init__(self, move_at: int = -1, truncate_at: int = -1, terminate_at: int = -1) -> None:
        self.action_space = gymnasium.spaces.Box(-SPEED, SPEED, (2,), np.float64)
        self.observation_space = gymnasium.spaces.Dict({})
        self._at = {"move": move_at, "truncate": truncate_at, "terminate": terminate_at}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict, dict]:
        super().reset(seed=seed)
        start = (options or {}).get("start", self.np_random.uniform(0, 0.1, 2))
        self.place, self.goal, self.sent = np.array(start, np.float64), np.array([0.9, 0.2]), []
        return self._seen(), {}

    def step(self, action: np.ndarray) -> tuple[dict, float, bool, bool, dict]:
        assert action in self.action_space
        self.sent.append(action)
        self.place = self.place + action
        now = len(self.sent)
        if now == self._at["move"]:
            self.goal = np.array([0.1, 0.9])
        return self._seen(), 0.0, now == self._at["terminate"], now == self._at["truncate"], {}

    def _seen(self) -> dict[str, np.ndarray]:
        return {"observation": self.place.copy(), "achieved_goal": self.place.copy(), "desired_goal": self.goal.copy()}


class HardController(ToyController):
    """Asks for more than the actions allow."""

    def act(self, *values):
        return 3 * super().act(*values)


def test_drive_takes_a_goal_env_to_its_desired_goal() -> None:
    env = GoalEnv()
    rollout = drive(ToyPlanner(), env, controller=HardController(), seed=3)
    assert rollout.success
    np.testing.assert_allclose(rollout.goal, [0.9, 0.2], atol=1e-6)
    np.testing.assert_array_equal(rollout.actions, np.array(env.sent), "what was sent, clipped")
    np.testing.assert_allclose(rollout.observations[-1], env.place, atol=1e-6)
    assert np.abs(rollout.actions).max() == SPEED


def test_drive_follows_a_desired_goal_that_moves() -> None:
    rollout = drive(ToyPlanner(), GoalEnv(move_at=3), controller=ToyController())
    assert rollout.success
    assert [step for step, _ in rollout.plans] == [0, 3]
    np.testing.assert_allclose(rollout.goal, [0.1, 0.9], atol=1e-6)
    own = drive(ToyPlanner(), GoalEnv(move_at=3), goal=[0.9, 0.2], controller=ToyController())
    assert [step for step, _ in own.plans] == [0], "a goal that is given stays"


@pytest.mark.parametrize("end", ["truncate_at", "terminate_at"])
def test_drive_ends_when_the_environment_does(end: str) -> None:
    rollout = drive(ToyPlanner(), GoalEnv(**{end: 4}), [1, 1], ToyController(), options={"start": [0, 0]})
    assert not rollout.success
    assert rollout.steps == 4
    assert len(rollout.observations) == 5


def test_drive_has_a_budget_and_takes_any_observation() -> None:
    env = GoalEnv()
    rollout = drive(
        ToyPlanner(),
        env,
        [1, 1],
        ToyController(),
        replan_every(2),
        max_steps=5,
        observation_of=lambda o: o["achieved_goal"],
    )
    assert rollout.steps == 5
    assert [step for step, _ in rollout.plans] == [0, 2, 4]
    with pytest.raises(VhdError, match="2 numbers"):
        drive(ToyPlanner(), env, [1, 1], ToyController(), observation_of=lambda o: [0.0])


def test_drive_says_what_is_missing() -> None:
    class Plain(GoalEnv):
        def _seen(self):
            return self.place.copy()

    class Renamed(GoalEnv):
        def _seen(self):
            return {"state": self.place.copy(), "desired_goal": self.goal.copy()}

    class Discrete(GoalEnv):
        def __init__(self):
            super().__init__()
            self.action_space = gymnasium.spaces.Discrete(3)

    class Wide(ToyController):
        def act(self, *values):
            return np.zeros((1, 3))

    assert drive(ToyPlanner(), Plain(), [1, 1], ToyController()).success
    for env, controller, message in (
        (Plain(), ToyController(), "pass `goal`"),
        (Renamed(), ToyController(), "observation_of"),
        (Discrete(), ToyController(), "Box"),
        (GoalEnv(), Wide(), r"shape \(3,\).*expects \(2,\)"),
    ):
        with pytest.raises(VhdError, match=message):
            drive(ToyPlanner(), env, controller=controller)


@pytest.mark.slow
def test_our_own_maze_is_driven_through_gymnasium() -> None:
    import vhdiffuser

    env = gymnasium.make("vhdiffuser/Maze2d-umaze-v1")
    planner = vhdiffuser.load_planner("maze2d-umaze")
    rollout = vhdiffuser.drive(planner, env, [3, 1], options={"start": [1, 1]})
    assert rollout.success
    assert rollout.spec == planner.spec
    same = vhdiffuser.execute(planner, [1, 1], [3, 1])
    assert same == rollout, "one machinery: the same plans, actions and states"
    again = vhdiffuser.drive(planner, env, options={"start": [1, 1], "goal": [3, 1]})
    assert again == rollout, "the task's own goal"


def test_after_warming_up_no_plan_waits_for_a_graph_or_an_import(monkeypatch: pytest.MonkeyPatch) -> None:
    planner = load_planner("maze2d-large", steps=1)
    agent = Agent(planner)
    agent.warm_up()
    monkeypatch.setattr("vhdiffuser.runtime.network._session", None)  # calling it would fail
    known = set(sys.modules)
    start, goal = [1.0, 1.0, 0.0, 0.0], [7.0, 9.0]
    for length in (16, 24, 32, 48, 64, 65, 96, 128, 200, 400, 640, 1200):
        assert planner.plan(start, goal, length).length == length
    assert planner.plan(start, start[:2], 200).length == 200  # there is no route, so it is drawn whole
    assert {name for name in sys.modules if name.startswith(("scipy", "onnxruntime"))} <= known
