from __future__ import annotations

from app.core import events
from app.core.explain import explain
from app.core.model import Metrics, Mode, ScalingConfig
from app.core.resources import resources
from app.core.state import State
from tests.core_builders import GIB, a_new_state, a_settled_state, a_vm, after, at, with_load

SMALL = resources(500, 2)


def text(state: State, milliseconds: int = 1) -> str:
    return "\n".join(explain(state, at(milliseconds)))


def test_the_arithmetic_of_cpu_and_memory_is_shown() -> None:
    vm = a_vm(max=resources(8_000, 32), scaling_config=ScalingConfig(0.9, 0.5))
    state = after(a_settled_state(vm), events.MetricsArrived(Metrics(4.0, 0, 3.2 * GIB)))
    said = explain(state, at(1))
    assert "load1 4.00 / target 0.90 = 4.44 CPUs -> 18 units of 0.25 CPU" in said
    assert "memory in use 3.20 GiB / target 0.50 = 6.40 GiB -> 6 units of 1 GiB, rounded down" in said
    assert "the larger counts: CPU, with 18 units" in said
    assert "desired: 4.5 CPU, 18 GiB (18 units = 4.5 CPU, 18 GiB); it has 1 CPU, 4 GiB" in said
    assert "next: ask the scheduler for 4.5 CPU, 18 GiB" in said


def test_bounds_are_told_where_they_cut_the_goal() -> None:
    assert "(24 units = 6 CPU, 24 GiB, within its bounds 4 CPU, 16 GiB)" in text(
        after(a_settled_state(), with_load(3.0))
    )


def test_a_denial_is_told_with_its_end() -> None:
    state = after(
        a_settled_state(),
        with_load(0.1),
        events.MonitorStartingDownscale(at(0), SMALL),
        events.MonitorDownscaleDenied(at(0)),
    )
    said = text(state, 1_000)
    assert (
        "the monitor denied a downscale to 0.5 CPU, 2 GiB: at least 3 units until 00:16:48 UTC (7 s from now)"
        in said
    )
    assert "that holds the size up" in said
    assert "no downscale is asked after the denial until 00:16:41 UTC (0.5 s from now)" in said


def test_a_requested_upscale_is_told_with_its_end() -> None:
    state = after(
        a_settled_state(), with_load(0.1), events.MonitorUpscaleRequested(at(0), cpu=True, memory=True)
    )
    said = text(state, 4_000)
    assert (
        "asked for more CPU and memory than 1 CPU, 4 GiB: at least 5 units until 00:16:50 UTC (6 s from now)"
        in said
    )


def test_a_pause_after_a_failure_is_told_with_its_end() -> None:
    state = after(
        a_settled_state(),
        with_load(1.0),
        events.PluginStarting(at(0), resources(2_000, 8)),
        events.PluginFailed(at(0)),
    )
    assert "the scheduler is left alone after a failure until 00:16:42 UTC (1.5 s from now)" in text(
        state, 500
    )


def test_what_is_in_flight_is_told() -> None:
    state = after(
        a_settled_state(),
        events.PlatformStarting(SMALL),
        events.PluginStarting(at(0), SMALL),
        events.MonitorStartingDownscale(at(0), SMALL),
    )
    said = text(state)
    assert "in flight: the scheduler was asked for 0.5 CPU, 2 GiB" in said
    assert "in flight: a resize to 0.5 CPU, 2 GiB" in said
    assert "in flight: the monitor was asked about the downscale to 0.5 CPU, 2 GiB" in said


def test_what_is_not_known_yet_is_told() -> None:
    assert "no scheduler has told the compute unit yet: the size stays as it is" in text(a_new_state())
    assert "no sample yet: load and memory are not known" in text(a_settled_state())
    assert "permit for 1 CPU, 4 GiB, monitor has approved 1 CPU, 4 GiB" in text(a_settled_state())


def test_an_observed_vm_says_that_nothing_is_asked() -> None:
    state = after(a_settled_state(), with_load(1.0), events.ModeChanged(Mode.OBSERVE, None))
    said = text(state)
    assert "why: observed only: nothing is asked of anyone" in said
    assert "next:" not in said


def test_a_vm_at_rest_says_until_when_nothing_happens() -> None:
    assert "nothing to ask of anyone now; looked at again in 4.9 s at the latest" in text(
        a_settled_state(), 100
    )
