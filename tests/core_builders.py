"""Data for tests of the decision core, with defaults that make a lively VM."""

from __future__ import annotations

from dataclasses import replace

from app.core import events
from app.core.actions import ActionSet
from app.core.decide import next_actions
from app.core.events import Event
from app.core.model import CoreConfig, CoreVm, Metrics, Millis, ScalingConfig
from app.core.resources import Resources, resources
from app.core.state import State, initial_state
from app.core.transition import apply

GIB = 2**30
UNIT = resources(250, 1)
T0 = Millis(1_000_000)


def a_config(**changes: object) -> CoreConfig:
    config = CoreConfig(
        default_scaling_config=ScalingConfig(0.5, 0.5),
        platform_retry_wait=Millis(3_000),
        plugin_request_tick=Millis(5_000),
        plugin_retry_wait=Millis(2_000),
        plugin_denied_retry_wait=Millis(4_000),
        monitor_denied_downscale_cooldown=Millis(8_000),
        monitor_downscale_follow_up_wait=Millis(1_500),
        monitor_requested_upscale_valid_period=Millis(10_000),
        monitor_retry_wait=Millis(2_500),
    )
    return replace(config, **changes)  # type: ignore[arg-type]


def a_vm(**changes: object) -> CoreVm:
    vm = CoreVm(
        name="db",
        namespace="default",
        min=resources(250, 1),
        max=resources(4_000, 16),
        use=resources(1_000, 4),
        slot_bytes=GIB,
    )
    return replace(vm, **changes)  # type: ignore[arg-type]


def a_sample(load1: float = 0.0, mem_gib: float = 0.0) -> Metrics:
    return Metrics(load1=load1, load5=load1, mem_bytes=mem_gib * GIB)


def after(state: State, *happenings: Event) -> State:
    """The state after events that must all be taken."""
    for event in happenings:
        outcome = apply(state, event)
        assert outcome.refused is None, outcome.refused
        state = outcome.state
    return state


def a_new_state(vm: CoreVm | None = None, config: CoreConfig | None = None) -> State:
    return initial_state(vm or a_vm(), config or a_config())


def a_settled_state(vm: CoreVm | None = None, config: CoreConfig | None = None) -> State:
    """Scheduler asked at T0 and answered, monitor active, no sample."""
    state = a_new_state(vm, config)
    return after(
        state,
        events.PluginNewScheduler(),
        events.MonitorActive(True),
        events.PluginStarting(T0, state.vm.use),
        events.PluginSuccessful(T0, state.vm.use, UNIT),
    )


def at(milliseconds: int) -> Millis:
    """So long after T0."""
    return Millis(T0 + milliseconds)


def decide(state: State, milliseconds: int = 0) -> ActionSet:
    return next_actions(state, at(milliseconds))


def granted(state: State, permit: Resources, milliseconds: int = 0) -> State:
    """The scheduler was asked for `permit` and granted it."""
    now = at(milliseconds)
    return after(state, events.PluginStarting(now, permit), events.PluginSuccessful(now, permit, UNIT))


def with_load(load1: float = 0.0, mem_gib: float = 0.0) -> Event:
    return events.MetricsArrived(a_sample(load1, mem_gib))
