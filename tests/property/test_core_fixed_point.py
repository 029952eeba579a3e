"""With constant metrics and cooperative counterparts the core comes to rest, and then only ticks."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from app.core import events
from app.core.decide import next_actions
from app.core.events import Event
from app.core.goal import desired_resources
from app.core.model import CoreConfig, Metrics, Millis, ScalingConfig
from app.core.resources import Resources, resources
from app.core.state import State, initial_state
from app.core.transition import apply
from tests.core_builders import a_config, a_vm
from tests.property.core_strategies import Answer, Follow, answers, starts

T0 = Millis(1_000_000)
PATIENCE = 60
"""Rounds after which a conversation that has not come to rest never will; 12 were the most seen."""

sizes = st.builds(resources, st.integers(1, 40).map(lambda n: n * 100), st.integers(1, 16))
units = st.builds(resources, st.sampled_from([100, 250, 1_000]), st.integers(1, 4))
samples = st.builds(Metrics, st.floats(0, 8), st.just(0.0), st.floats(0, 2e10))
YES = Answer("grant", "grant", "grant")


def all_agree(state: State, now: Millis, unit: Resources) -> State:
    for event in answers(state, YES, now, unit):
        outcome = apply(state, event)
        assert outcome.refused is None
        state = outcome.state
    return state


def a_start(use: Resources, low: Resources, high: Resources, config: CoreConfig, sample: Metrics) -> State:
    state = initial_state(a_vm(use=use, min=low.min(high), max=low.max(high)), config)
    opening: list[Event] = [
        events.PluginNewScheduler(),
        events.MonitorActive(True),
        events.MetricsArrived(sample),
    ]
    for event in opening:
        state = apply(state, event).state
    return state


def come_to_rest(state: State, unit: Resources, delays: list[int]) -> tuple[State, Millis]:
    """Drive until nothing but ticks is asked for; answers come after the given delays, in turn."""
    now = T0
    for turn in range(PATIENCE):
        actions = next_actions(state, now)
        is_tick = actions.plugin is None or actions.plugin.target == state.plugin.permit
        others = (actions.platform, actions.monitor_upscale, actions.monitor_downscale)
        if state.plugin.permit is not None and is_tick and others == (None, None, None):
            return state, now
        for event in starts(Follow(is_reversed=bool(turn % 2)), now, actions):
            outcome = apply(state, event)
            assert outcome.refused is None
            state = outcome.state
        now = Millis(now + delays[turn % len(delays)])
        state = all_agree(state, now, unit)
    raise AssertionError(f"no rest after {PATIENCE} rounds: {next_actions(state, now)}")


@settings(max_examples=200, deadline=None)
@given(sizes, sizes, sizes, units, samples, st.lists(st.sampled_from([0, 20, 700, 4_999]), min_size=1))
def test_it_comes_to_rest_at_the_desired_size_and_then_only_ticks(
    use: Resources, low: Resources, high: Resources, unit: Resources, sample: Metrics, delays: list[int]
) -> None:
    config = a_config(default_scaling_config=ScalingConfig(0.9, 0.75))
    state, now = come_to_rest(a_start(use, low, high, config, sample), unit, delays)
    desired = desired_resources(state, now).resources
    assert state.vm.use == state.plugin.permit == state.monitor.approved == desired
    for _ in range(5):
        actions = next_actions(state, now)
        if actions.plugin is None:
            assert actions.wait is not None
            assert not actions.has_requests
            now = Millis(now + actions.wait)
            continue
        assert actions == replace(actions, platform=None, monitor_upscale=None, monitor_downscale=None)
        assert actions.plugin.target == desired
        state = apply(state, events.PluginStarting(now, desired)).state
        state = all_agree(state, now, unit)
    assert desired_resources(state, now).resources == desired


@settings(max_examples=100, deadline=None)
@given(sizes, units, samples)
def test_it_comes_to_rest_again_after_a_takeover_and_another_scheduler(
    use: Resources, unit: Resources, sample: Metrics
) -> None:
    start = a_start(use, resources(100, 1), resources(4_000, 16), a_config(), sample)
    state, now = come_to_rest(start, unit, [10])
    taken = apply(apply(state, events.MonitorReset()).state, events.PluginNewScheduler()).state
    taken = apply(taken, events.PlatformObserved(now, resources(700, 3))).state
    taken = apply(taken, events.MonitorActive(True)).state
    rested, later = come_to_rest(taken, unit, [10])
    assert rested.vm.use == desired_resources(rested, later).resources == state.vm.use
