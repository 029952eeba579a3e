"""Whole conversations of the decision core with its counterparts, drawn by Hypothesis.

A counterpart answers well, badly, late or never; bounds and settings move; time goes on by any step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from app.core import events
from app.core.actions import ActionSet
from app.core.events import Event
from app.core.model import CoreConfig, CoreVm, Metrics, Millis, Mode, ScalingConfig
from app.core.resources import Resources, resources
from app.core.state import RequestKind, State

GIB = 2**30

amounts = st.builds(resources, st.sampled_from([0, 1, 250, 500, 1_000, 1_100, 3_000]), st.integers(0, 13))
units = st.builds(resources, st.sampled_from([1, 250, 300, 1_000]), st.integers(1, 4))
waits = st.sampled_from([0, 1, 500, 3_000, 10_000]).map(Millis)
targets = st.builds(
    ScalingConfig, st.sampled_from([1e-300, 0.3, 0.9, 1.9]), st.sampled_from([1e-300, 0.25, 0.8])
)
configs = st.builds(CoreConfig, targets, *[waits] * 8)
vms = st.builds(
    CoreVm,
    name=st.just("vm"),
    namespace=st.just("ns"),
    min=amounts,
    max=amounts,
    use=amounts,
    slot_bytes=st.sampled_from([1, 2**28, GIB]),
    scaling_config=st.none() | targets,
)
samples = st.builds(
    Metrics,
    st.sampled_from([0.0, 0.125, 1.0, 7.5, 3e38]) | st.floats(0, 20),
    st.just(0.0),
    st.sampled_from([0.0, 1e9, 2.5e9, 1e10, 3e38]),
)


@dataclass(frozen=True)
class Follow:
    """Do whatever is planned: start the requests, in the order in which they are chosen."""

    is_reversed: bool


@dataclass(frozen=True)
class Answer:
    """Counterparts answer what is ongoing: `kind` says how."""

    plugin: str
    platform: str
    monitor: str


@dataclass(frozen=True)
class Wait:
    """Time goes on."""

    milliseconds: int


Move = Follow | Answer | Wait | Callable[[Millis], Event]

_answers = st.builds(
    Answer,
    st.sampled_from(["never", "grant", "grant", "half", "bad", "fail"]),
    st.sampled_from(["never", "grant", "grant", "fail", "other"]),
    st.sampled_from(["never", "grant", "grant", "deny", "fail"]),
)


def _at(build: Callable[..., Event], *parts: st.SearchStrategy[object]) -> st.SearchStrategy[Move]:
    """An event that takes `now` first, with its other parts drawn."""
    return st.tuples(*parts).map(lambda drawn: lambda now: build(now, *drawn))


def _plain(events_drawn: st.SearchStrategy[Event]) -> st.SearchStrategy[Move]:
    return events_drawn.map(lambda event: lambda now: event)


outside = st.one_of(
    _plain(st.builds(events.MetricsArrived, samples | st.none())),
    _plain(st.builds(events.UpdatedVm, vms)),
    _plain(st.sampled_from([events.PluginNewScheduler(), events.PluginGone(), events.MonitorReset()])),
    _plain(st.builds(events.MonitorActive, st.booleans())),
    _at(events.MonitorUpscaleRequested, st.booleans(), st.booleans()),
    _at(events.PlatformObserved, amounts),
    _plain(st.builds(events.ModeChanged, st.sampled_from(Mode), st.none() | units)),
)
chaos = st.one_of(
    _at(events.PluginStarting, amounts),
    _at(events.PluginFailed),
    _at(events.PluginSuccessful, amounts, units | amounts),
    _at(events.MonitorStartingUpscale, amounts),
    _at(events.MonitorStartingDownscale, amounts),
    _plain(st.sampled_from([events.MonitorUpscaleSuccessful(), events.MonitorDownscaleAllowed()])),
    _at(events.MonitorUpscaleFailed),
    _at(events.MonitorDownscaleFailed),
    _at(events.MonitorDownscaleDenied),
    _plain(st.builds(events.PlatformStarting, amounts)),
    _plain(st.just(events.PlatformSuccessful())),
    _at(events.PlatformFailed),
)
_usual = st.one_of(
    st.builds(Follow, st.booleans()),
    _answers,
    st.builds(Wait, st.sampled_from([0, 1, 499, 3_000, 20_000])),
    outside,
)
moves: st.SearchStrategy[list[Move]] = st.lists(_usual, max_size=40)
wild_moves: st.SearchStrategy[list[Move]] = st.lists(_usual | chaos, max_size=40)


def starts(move: Follow, now: Millis, plan: ActionSet) -> list[Event]:
    """The events of beginning what `plan` holds."""
    begun: list[Event] = []
    if plan.plugin is not None:
        begun.append(events.PluginStarting(now, plan.plugin.target))
    if plan.platform is not None:
        begun.append(events.PlatformStarting(plan.platform.target))
    if plan.monitor_upscale is not None:
        begun.append(events.MonitorStartingUpscale(now, plan.monitor_upscale.target))
    if plan.monitor_downscale is not None:
        begun.append(events.MonitorStartingDownscale(now, plan.monitor_downscale.target))
    return begun[::-1] if move.is_reversed else begun


def answers(state: State, move: Answer, now: Millis, unit: Resources) -> list[Event]:
    """The events of the counterparts' answers to what is ongoing; none where they say nothing."""
    return [
        *_plugin_answer(state, move.plugin, now, unit),
        *_platform_answer(state, move.platform, now),
        *_monitor_answer(state, move.monitor, now),
    ]


def _plugin_answer(state: State, how: str, now: Millis, unit: Resources) -> list[Event]:
    last = state.plugin.last_request
    if not state.plugin.ongoing or last is None or how == "never":
        return []
    if how == "fail":
        return [events.PluginFailed(now)]
    asked, use = last.resources, state.vm.use
    half = resources((asked.cpu + use.cpu) // 2, (asked.mem + use.mem) // 2)
    permit = {"grant": asked, "half": half, "bad": asked.max(use).max(resources(9_999, 99))}[how]
    return [events.PluginSuccessful(now, permit, unit)]


def _platform_answer(state: State, how: str, now: Millis) -> list[Event]:
    if state.platform.ongoing is None or how == "never":
        return []
    if how == "grant":
        return [events.PlatformSuccessful()]
    if how == "fail":
        return [events.PlatformFailed(now)]
    partly = replace(state.platform.ongoing, mem=state.vm.use.mem)
    return [events.PlatformFailed(now), events.PlatformObserved(now, partly)]


def _monitor_answer(state: State, how: str, now: Millis) -> list[Event]:
    ongoing = state.monitor.ongoing
    if ongoing is None or how == "never":
        return []
    if ongoing.kind is RequestKind.UPSCALE:
        return [events.MonitorUpscaleSuccessful() if how == "grant" else events.MonitorUpscaleFailed(now)]
    if how == "grant":
        return [events.MonitorDownscaleAllowed()]
    return [events.MonitorDownscaleDenied(now) if how == "deny" else events.MonitorDownscaleFailed(now)]
