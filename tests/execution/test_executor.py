"""AES as the paper defines it, on hand-made rollouts; and that company and workers change nothing."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from toy_point import CopyableEnv, ToyController, ToyEnv, ToyPlanner, instance, make_pushed_env, make_stuck_env

from vhdiffuser.envs.protocols import ExecutionRule, fixed_episode, replan_every, replan_on_deviation, single_shot
from vhdiffuser.errors import VhdError
from vhdiffuser.execution.executor import Executor, Outcome
from vhdiffuser.execution.loop import plan_seed
from vhdiffuser.execution.simulators import Simulators

ACROSS = instance((0.0, 0.0), (1.0, 0.0))


def run_one(
    planner: ToyPlanner, rule: ExecutionRule, case=ACROSS, make_env=ToyEnv, horizon: int | None = None
) -> Outcome:
    executor = Executor(planner, ToyController(), Simulators(make_env, 1), rule, horizon=horizon)
    (outcome,) = executor.run([case])
    return outcome


def test_a_hit_ends_the_run_before_the_plan_does() -> None:
    # 26 states, 0.04 apart: state 24 lies at 0.96, the first within 0.05 of the goal.
    outcome = run_one(ToyPlanner(), single_shot(), horizon=26)
    assert outcome.rollout.success
    assert outcome.rollout.steps == 24 == len(outcome.rollout.actions)
    assert outcome.rollout.plans[0][1].length == 26


def test_a_miss_counts_one_step_for_every_index_of_the_plan() -> None:
    outcome = run_one(ToyPlanner(miss=np.array([0.0, 0.2], np.float32)), single_shot(), horizon=21)
    assert not outcome.rollout.success
    assert outcome.rollout.steps == 21  # l = min{L_hat, t_hit} with t_hit infinite
    assert outcome.final_distance == pytest.approx(0.2, abs=1e-5)


def test_the_last_index_still_gets_its_action() -> None:
    # 10 gaps of 0.105 at 0.1 a step: 0.05 short after 10 actions (just outside), there with the eleventh.
    outcome = run_one(ToyPlanner(), single_shot(), instance((0.0, 0.0), (1.06, 0.0)), horizon=11)
    assert outcome.rollout.success
    assert outcome.rollout.steps == 11


def test_a_start_inside_the_goal_region_takes_no_step() -> None:
    outcome = run_one(ToyPlanner(), single_shot(), instance((0.5, 0.5), (0.52, 0.5)))
    assert outcome.rollout.success
    assert outcome.rollout.steps == 0
    assert outcome.rollout.actions.shape == (0, 2)


def test_a_plan_that_ends_short_is_renewed_until_the_hit() -> None:
    # Four indices a plan and 0.1 a step: 0.4, then 0.8, then 0.933 and 1.0.
    planner = ToyPlanner()
    outcome = run_one(planner, replan_on_deviation(40, threshold=9.0, check_every=1), horizon=4)
    assert outcome.rollout.success
    assert [step for step, _ in outcome.rollout.plans] == [0, 4, 8]
    assert outcome.rollout.replans == 2
    assert outcome.rollout.steps == 4 + 4 + 3
    assert outcome.predicted_length is None


def test_failures_count_the_budget() -> None:
    outcome = run_one(ToyPlanner(), replan_on_deviation(25, 0.1, 5), make_env=make_stuck_env)
    assert not outcome.rollout.success
    assert outcome.rollout.steps == 25


def test_deviation_is_noticed_at_the_next_check_and_the_horizon_is_fresh() -> None:
    # Pushed by 0.5 at step 4; checked at 3, 6, ...: replanned at 6, at (0.6, 0.3) by then.
    planner = ToyPlanner()
    outcome = run_one(planner, replan_on_deviation(40, 0.15, 3), make_env=make_pushed_env)
    assert outcome.rollout.success
    assert [step for step, _ in outcome.rollout.plans] == [0, 6]
    assert [call["lengths"] for call in planner.calls] == [[11], [5]]  # 4 steps are left
    assert outcome.predicted_length == 11
    np.testing.assert_array_equal(outcome.rollout.plans[1][1].goal, ACROSS.goal)


def test_a_small_deviation_does_not_replan() -> None:
    outcome = run_one(ToyPlanner(), replan_on_deviation(40, 0.6, 3), make_env=make_pushed_env)
    assert [step for step, _ in outcome.rollout.plans] == [0]


def test_fixed_episodes_hold_the_last_state_and_never_end_early() -> None:
    outcome = run_one(ToyPlanner(), fixed_episode(30))
    assert outcome.rollout.steps == 30
    assert outcome.rollout.success
    np.testing.assert_allclose(outcome.rollout.observations[10:, 0], 1.0, atol=1e-5)


def test_actions_repeat_the_rollout() -> None:
    outcome = run_one(ToyPlanner(noise=0.03), replan_on_deviation(40, 0.05, 2))
    env = ToyEnv()
    repeated = [env.reset(outcome.instance), *(env.step(action) for action in outcome.rollout.actions)]
    np.testing.assert_array_equal(np.stack(repeated), outcome.rollout.observations)


def outcomes(slots: int, workers: int, numbers: list[int]) -> dict[int, Outcome]:
    env = ToyEnv()
    cases = [env.sample_instance(np.random.default_rng(number)) for number in numbers]
    rule = replan_on_deviation(40, 0.06, 4)
    with Simulators(make_pushed_env, slots, workers) as simulators:
        executor = Executor(ToyPlanner(noise=0.05), ToyController(), simulators, rule, seed=3)
        return {outcome.number: outcome for outcome in executor.run(cases, numbers)}


@pytest.mark.parametrize(("slots", "workers"), [(1, 1), (5, 1), (12, 2)])
def test_neither_workers_nor_company_change_a_byte(slots: int, workers: int) -> None:
    expected = outcomes(20, 1, list(range(12)))
    assert len({len(item.rollout.plans) for item in expected.values()}) > 1
    found = outcomes(slots, workers, [7, 2, 9] if workers == 1 else list(range(12)))
    for number, outcome in found.items():
        np.testing.assert_array_equal(outcome.rollout.observations, expected[number].rollout.observations)
        np.testing.assert_array_equal(outcome.rollout.actions, expected[number].rollout.actions)


def test_all_that_wait_are_planned_in_one_call() -> None:
    planner = ToyPlanner()
    executor = Executor(planner, ToyController(), Simulators(ToyEnv, 50), single_shot())
    assert len(list(executor.run([ACROSS] * 40))) == 40
    assert [len(call["lengths"]) for call in planner.calls] == [40]
    assert len(set(planner.calls[0]["seeds"])) == 40


CASES = [instance(tuple(start), tuple(goal)) for start, goal in np.random.default_rng(0).uniform(0, 1, (23, 2, 2))]


def facts(outcome: Outcome) -> tuple:
    """What an outcome says, but for the clock."""
    rollout = outcome.rollout
    steps = [(step, plan.states.tobytes()) for step, plan in rollout.plans]
    return rollout.observations.tobytes(), rollout.actions.tobytes(), steps, rollout.success, outcome.final_distance


@pytest.mark.parametrize("rule", [single_shot(), replan_on_deviation(60, 0.15, 3), replan_every(4, 60)])
def test_neither_shards_nor_simulators_nor_rounds_change_an_outcome(rule: ExecutionRule) -> None:
    def outcomes(slots: int, size: int) -> dict[int, tuple]:
        executor = Executor(ToyPlanner(), ToyController(), Simulators(make_pushed_env, slots), rule)
        shards = [range(first, min(first + size, 23)) for first in range(0, 23, size)]
        found = executor.run_shards([(shard, [CASES[number] for number in shard]) for shard in shards])
        return {outcome.number: facts(outcome) for _, outcome in found}

    whole = outcomes(slots=23, size=23)
    assert len(whole) == 23
    for slots, size in ((23, 6), (23, 1), (7, 23), (7, 4), (1, 2), (1, 23)):
        assert outcomes(slots, size) == whole


@pytest.mark.parametrize("slots", [3, 50])
@pytest.mark.parametrize(
    "rule", [replan_on_deviation(60, 0.15, 3), replan_every(4, 60), replan_on_deviation(5, 0.15, 3)]
)
def test_what_two_rules_have_in_common_is_executed_once(rule: ExecutionRule, slots: int) -> None:
    planner = ToyPlanner(noise=0.05)
    simulators = Simulators(CopyableEnv, slots, first=CopyableEnv())

    def executor(one: ExecutionRule, also: ExecutionRule | None = None) -> Executor:
        return Executor(planner, ToyController(), simulators, one, seed=3, also=also)

    once = single_shot()
    shards = [(range(12), CASES[:12]), (range(12, 23), CASES[12:])]
    apart = {one: {o.number: facts(o) for _, o in executor(one).run_shards(shards)} for one in (rule, once)}
    planned = sum(len(call["seeds"]) for call in planner.calls)
    planner.calls.clear()
    together: dict[ExecutionRule, dict[int, tuple]] = {rule: {}, once: {}}
    for one, outcome in executor(rule, once).run_shards(shards):
        assert outcome.number not in together[one]
        together[one][outcome.number] = facts(outcome)
    assert together == apart
    assert together[rule] != together[once]
    assert sum(len(call["seeds"]) for call in planner.calls) == planned - 23  # no first plan is made twice


def test_only_executions_that_begin_alike_are_shared() -> None:
    simulators = Simulators(CopyableEnv, 5, first=CopyableEnv())
    for rule, other in (
        (single_shot(), single_shot()),
        (replan_every(4, 60), replan_on_deviation(60)),
        (replan_every(4, 60), fixed_episode(20)),
        (replan_every(4, 60), ExecutionRule(stop_at_hit=False)),
    ):
        with pytest.raises(VhdError, match="cannot share"):
            Executor(ToyPlanner(), ToyController(), simulators, rule, also=other)
    with pytest.raises(VhdError, match="cannot share"):
        Executor(ToyPlanner(), ToyController(), Simulators(ToyEnv, 5), replan_every(4, 60), also=single_shot())


def test_seconds_are_shared_out_among_those_who_used_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock on which a call of the planner takes 6 s and one of the controller 2 s."""
    now = [0.0]

    class SlowPlanner(ToyPlanner):
        def plan_batch(self, *values, **named):
            now[0] += 6.0
            return super().plan_batch(*values, **named)

    class SlowController(ToyController):
        def act(self, *values):
            now[0] += 2.0
            return super().act(*values)

    for module in ("executor", "loop"):
        monkeypatch.setattr(f"vhdiffuser.execution.{module}.time", SimpleNamespace(perf_counter=lambda: now[0]))
    near = instance((0.0, 0.0), (0.5, 0.0))
    executor = Executor(SlowPlanner(), SlowController(), Simulators(ToyEnv, 50), single_shot())
    found = {item.number: item for item in executor.run([ACROSS, near, ACROSS])}
    assert [found[number].rollout.steps for number in range(3)] == [10, 5, 10]
    # One call plans for all three; five steps are made by three, five more by two.
    assert [found[number].planning_seconds for number in range(3)] == pytest.approx([2, 2, 2])
    assert [found[number].control_seconds for number in range(3)] == pytest.approx([25 / 3, 10 / 3, 25 / 3])


def test_plan_seeds_differ_in_every_part_and_fit_in_63_bits() -> None:
    seeds = {plan_seed(*key) for key in np.ndindex(3, 4, 5)}
    assert len(seeds) == 60
    assert all(0 <= seed < 2**63 for seed in seeds)


@pytest.mark.parametrize(
    "wrong",
    [{"threshold": 0.0, "budget": 5}, {"check_every": 0}, {"budget": 0}, {"every": 0}],
)
def test_rules_that_make_no_sense_are_refused(wrong: dict) -> None:
    with pytest.raises(VhdError):
        ExecutionRule(**wrong)


@pytest.mark.parametrize("endless", [replan_on_deviation(), replan_every(3), ExecutionRule(hold=True)])
def test_an_execution_that_might_never_end_is_refused(endless: ExecutionRule) -> None:
    with pytest.raises(VhdError, match="step budget"):
        run_one(ToyPlanner(), endless)


def test_plans_are_renewed_every_so_many_steps() -> None:
    # Ten steps to the goal: plans at 0, 3, 6 and 9, each as long as the way that is left.
    planner = ToyPlanner()
    outcome = run_one(planner, replan_every(3, budget=40))
    assert outcome.rollout.success
    assert [(step, plan.length) for step, plan in outcome.rollout.plans] == [(0, 11), (3, 8), (6, 5), (9, 2)]
    assert outcome.rollout.steps == 10


def test_results_record_a_rule_as_before_unless_it_renews_plans_by_time() -> None:
    """Rows of releases without `every` can be continued; and what is recorded makes the rule again."""
    rule = replan_on_deviation(40)
    assert set(rule.to_json()) == {"threshold", "check_every", "budget", "stop_at_hit", "hold"}
    for each in (rule, replan_every(5, 40)):
        assert ExecutionRule(**each.to_json()) == each


def test_a_warm_start_replans_from_the_old_plan_and_first_plans_are_as_ever() -> None:
    asked = []

    class WarmPlanner(ToyPlanner):
        def replan_batch(self, plans, starts, goals, *, seeds):
            asked.append((plans[0], starts[0].copy(), goals[0].copy(), int(seeds[0])))
            return self.plan_batch(starts, goals, seeds=seeds)

    rule = replan_every(5, budget=40)
    cold = run_one(ToyPlanner(), rule)
    assert rule.to_json().keys() == replan_on_deviation(40).to_json().keys() | {"every"}
    warm = run_one(WarmPlanner(), replan_every(5, budget=40, warm_start=True))
    assert warm.rollout.plans[0][1] == cold.rollout.plans[0][1]
    assert warm.rollout.replans == cold.rollout.replans == len(asked)
    for number, (plan, start, goal, seed) in enumerate(asked):
        made, old = warm.rollout.plans[number + 1][0], warm.rollout.plans[number][1]
        assert plan is old
        np.testing.assert_array_equal(start, warm.rollout.observations[made][:2])
        np.testing.assert_array_equal(goal, ACROSS.goal)
        assert seed == plan_seed(0, 0, number + 1)


def test_a_warm_start_needs_a_planner_that_can() -> None:
    with pytest.raises(VhdError, match="replan_batch"):
        run_one(ToyPlanner(), replan_every(5, budget=40, warm_start=True))
