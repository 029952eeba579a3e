from __future__ import annotations

import math

import pytest

from app.core import events
from app.core.events import Event
from app.core.model import Metrics, Mode, ScalingConfig
from app.core.resources import Resources, resources
from app.core.state import MonitorState, PluginState, initial_state
from app.core.transition import apply
from app.errors import InvalidInput
from tests.core_builders import T0, UNIT, a_config, a_new_state, a_settled_state, a_vm, after, at, with_load

SIZE = resources(500, 2)


@pytest.mark.parametrize(
    "event",
    [
        events.PluginStarting(T0, SIZE),
        events.PluginFailed(T0),
        events.PluginSuccessful(T0, SIZE, UNIT),
        events.MonitorUpscaleRequested(T0, cpu=True, memory=True),
        events.MonitorStartingUpscale(T0, SIZE),
        events.MonitorStartingDownscale(T0, SIZE),
        events.MonitorUpscaleSuccessful(),
        events.MonitorUpscaleFailed(T0),
        events.MonitorDownscaleAllowed(),
        events.MonitorDownscaleDenied(T0),
        events.MonitorDownscaleFailed(T0),
        events.PlatformSuccessful(),
        events.PlatformFailed(T0),
    ],
    ids=lambda event: type(event).__name__,
)
def test_what_makes_no_sense_to_a_new_vm_is_refused_and_changes_nothing(event: Event) -> None:
    state = a_new_state()
    outcome = apply(state, event)
    assert outcome.refused
    assert outcome.state is state


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (events.PluginStarting(at(0), SIZE), events.PluginStarting(at(1), SIZE)),
        (events.PlatformStarting(SIZE), events.PlatformStarting(SIZE)),
        (events.MonitorStartingUpscale(at(0), SIZE), events.MonitorStartingDownscale(at(1), SIZE)),
        (events.MonitorStartingDownscale(at(0), SIZE), events.MonitorStartingDownscale(at(1), SIZE)),
        (events.MonitorStartingUpscale(at(0), SIZE), events.MonitorDownscaleAllowed()),
        (events.MonitorStartingUpscale(at(0), SIZE), events.MonitorDownscaleDenied(at(1))),
        (events.MonitorStartingDownscale(at(0), SIZE), events.MonitorUpscaleSuccessful()),
    ],
    ids=lambda event: type(event).__name__,
)
def test_a_second_request_and_an_answer_of_the_other_kind_are_refused(first: Event, second: Event) -> None:
    state = after(a_settled_state(), first)
    outcome = apply(state, second)
    assert outcome.refused
    assert outcome.state is state


@pytest.mark.parametrize(
    ("permit", "unit", "problem"),
    [
        (resources(0, 4), UNIT, "permit of 0 CPU, 4 slots has a zero field"),
        (resources(1_000, 0), UNIT, "permit of 1 CPU, 0 slots has a zero field"),
        (resources(1_000, 4), resources(0, 1), "compute unit of 0 CPU, 1 slots has a zero field"),
        (resources(1_000, 4), resources(10**400, 1), "is out of range"),
        (resources(1_500, 4), UNIT, "above the 1.25 CPU, 5 slots asked for"),
        (resources(1_000, 3), UNIT, "below the 1 CPU, 4 slots in use"),
    ],
)
def test_a_bad_answer_of_the_scheduler_is_a_failure_and_nothing_of_it_is_kept(
    permit: Resources, unit: Resources, problem: str
) -> None:
    asked = after(a_settled_state(), events.PluginStarting(at(10), resources(1_250, 5)))
    outcome = apply(asked, events.PluginSuccessful(at(20), permit, unit))
    assert outcome.refused is not None
    assert problem in outcome.refused
    plugin = outcome.state.plugin
    assert (plugin.ongoing, plugin.failed_at) == (False, at(20))
    assert (plugin.permit, plugin.compute_unit) == (asked.plugin.permit, asked.plugin.compute_unit)


@pytest.mark.parametrize(
    ("event", "alive"), [(events.PluginNewScheduler(), True), (events.PluginGone(), False)]
)
def test_another_scheduler_forgets_all_but_unit_and_permit(event: Event, alive: bool) -> None:
    state = after(a_settled_state(), events.PluginStarting(at(1), SIZE), events.PluginFailed(at(2)), event)
    assert state.plugin == PluginState(alive=alive, compute_unit=UNIT, permit=resources(1_000, 4))


def test_an_answer_after_the_scheduler_has_changed_is_refused() -> None:
    state = after(a_settled_state(), events.PluginStarting(at(1), SIZE), events.PluginNewScheduler())
    assert apply(state, events.PluginSuccessful(at(2), SIZE, UNIT)).refused


def test_an_updated_vm_keeps_the_size_that_is_believed() -> None:
    state = after(a_settled_state(), events.UpdatedVm(a_vm(use=SIZE, max=resources(9_000, 9))))
    assert state.vm.use == resources(1_000, 4)
    assert state.vm.max == resources(9_000, 9)


@pytest.mark.parametrize(
    "vm",
    [
        a_vm(slot_bytes=0),
        a_vm(slot_bytes=10**400),
        a_vm(scaling_config=ScalingConfig(0.0, 0.5)),
        a_vm(scaling_config=ScalingConfig(0.5, math.nan)),
        a_vm(scaling_config=ScalingConfig(-1.0, 0.5)),
    ],
)
def test_a_description_that_can_not_be_computed_with_is_refused(vm: object) -> None:
    state = a_settled_state()
    outcome = apply(state, events.UpdatedVm(vm))  # type: ignore[arg-type]
    assert outcome.refused
    assert outcome.state is state
    with pytest.raises(InvalidInput, match="default/db"):
        initial_state(vm, a_config())  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1.0])
@pytest.mark.parametrize("field", [0, 1, 2])
def test_a_sample_that_can_not_be_believed_leaves_the_last_good_one(bad: float, field: int) -> None:
    state = after(a_settled_state(), with_load(1.0, 1.0))
    values = [1.0, 1.0, 1.0]
    values[field] = bad
    outcome = apply(state, events.MetricsArrived(Metrics(*values)))
    assert outcome.refused is not None
    assert outcome.refused.startswith("metrics ")
    assert outcome.state is state


def test_the_sample_can_be_forgotten() -> None:
    assert after(a_settled_state(), with_load(1.0), events.MetricsArrived(None)).metrics is None


def test_a_monitor_that_becomes_active_is_taken_to_approve_what_is_used() -> None:
    state = a_new_state()
    assert not state.monitor.is_active
    active = after(state, events.MonitorActive(True))
    assert active.monitor.approved == state.vm.use
    assert not after(active, events.MonitorActive(False)).monitor.is_active


def test_reset_forgets_everything_about_the_monitor() -> None:
    state = after(
        a_settled_state(),
        events.MonitorUpscaleRequested(at(1), cpu=True, memory=False),
        events.MonitorStartingDownscale(at(2), SIZE),
        events.MonitorReset(),
    )
    assert state.monitor == MonitorState()


def test_starting_clears_the_failure_of_its_own_kind_only() -> None:
    failed = after(
        a_settled_state(),
        events.MonitorStartingUpscale(at(1), SIZE),
        events.MonitorUpscaleFailed(at(2)),
        events.MonitorStartingDownscale(at(3), SIZE),
        events.MonitorDownscaleFailed(at(4)),
    )
    assert (failed.monitor.upscale_failed_at, failed.monitor.downscale_failed_at) == (at(2), at(4))
    again = after(failed, events.MonitorStartingUpscale(at(5), SIZE))
    assert (again.monitor.upscale_failed_at, again.monitor.downscale_failed_at) == (None, at(4))


def test_a_denial_remembers_what_was_approved_and_what_was_asked() -> None:
    state = after(
        a_settled_state(), events.MonitorStartingDownscale(at(1), SIZE), events.MonitorDownscaleDenied(at(2))
    )
    denied = state.monitor.denied_downscale
    assert denied is not None
    assert (denied.at, denied.current, denied.requested) == (at(2), resources(1_000, 4), SIZE)
    assert state.monitor.ongoing is None
    assert state.monitor.downscale_failed_at is None


def test_a_denial_by_a_monitor_no_longer_active_ends_the_request_and_binds_nobody() -> None:
    state = after(
        a_settled_state(),
        events.MonitorStartingDownscale(at(1), SIZE),
        events.MonitorActive(False),
        events.MonitorDownscaleDenied(at(2)),
    )
    assert state.monitor.ongoing is None
    assert state.monitor.denied_downscale is None


def test_an_observed_size_leaves_the_request_in_flight_alone() -> None:
    state = after(
        a_settled_state(), events.PlatformStarting(SIZE), events.PlatformObserved(at(1), resources(750, 3))
    )
    assert state.vm.use == resources(750, 3)
    assert state.platform.ongoing == SIZE
    done = after(state, events.PlatformSuccessful())
    assert (done.vm.use, done.platform.ongoing) == (SIZE, None)


def test_a_failed_resize_keeps_the_size_and_the_time_of_the_failure() -> None:
    state = after(a_settled_state(), events.PlatformStarting(SIZE), events.PlatformFailed(at(1)))
    assert (state.vm.use, state.platform.ongoing) == (resources(1_000, 4), None)
    assert state.platform.failed_at == at(1)


def test_a_mode_with_a_unit_of_nothing_is_refused() -> None:
    state = a_settled_state()
    outcome = apply(state, events.ModeChanged(Mode.OBSERVE, resources(0, 1)))
    assert outcome.refused == "mode: the compute unit has a zero field"
    assert outcome.state is state


def test_the_unit_of_observing_is_forgotten_when_scaling_begins() -> None:
    observed = after(a_new_state(), events.ModeChanged(Mode.OBSERVE, UNIT))
    assert observed.compute_unit == UNIT
    assert after(observed, events.ModeChanged(Mode.SCALE, UNIT)).compute_unit is None
