from __future__ import annotations

import json

import pytest

from app.core import events
from app.core.decide import next_actions
from app.core.model import Metrics, Millis, Mode
from app.core.resources import resources
from app.core.snapshot import to_snapshot
from app.errors import InvalidInput
from app.services.event_script import read_script
from app.services.replay import run_script
from tests.script_builders import CONFIG, UNIT, USE, VM, Json, a_new, a_script, an_event, settled

SIZE = resources(1_000, 4)
NOW = Millis(1_000)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (an_event("next"), None),
        (an_event("metrics", metrics=None), events.MetricsArrived(None)),
        (
            an_event("metrics", metrics={"load1": 1, "load5": 0.5, "mem_bytes": 7}),
            events.MetricsArrived(Metrics(1.0, 0.5, 7.0)),
        ),
        (
            an_event("mode", mode="observe", compute_unit=UNIT),
            events.ModeChanged(Mode.OBSERVE, resources(250, 1)),
        ),
        (an_event("mode", mode="scale", compute_unit=None), events.ModeChanged(Mode.SCALE, None)),
        (an_event("plugin.new_scheduler"), events.PluginNewScheduler()),
        (an_event("plugin.gone"), events.PluginGone()),
        (an_event("plugin.failed"), events.PluginFailed(NOW)),
        (an_event("plugin.starting", resources=USE), events.PluginStarting(NOW, SIZE)),
        (
            an_event("plugin.success", permit=USE, compute_unit=UNIT),
            events.PluginSuccessful(NOW, SIZE, resources(250, 1)),
        ),
        (an_event("monitor.active", active=False), events.MonitorActive(False)),
        (an_event("monitor.reset"), events.MonitorReset()),
        (
            an_event("monitor.upscale_requested", cpu=False, memory=True),
            events.MonitorUpscaleRequested(NOW, cpu=False, memory=True),
        ),
        (an_event("monitor.starting_upscale", resources=USE), events.MonitorStartingUpscale(NOW, SIZE)),
        (an_event("monitor.starting_downscale", resources=USE), events.MonitorStartingDownscale(NOW, SIZE)),
        (an_event("monitor.upscale_ok"), events.MonitorUpscaleSuccessful()),
        (an_event("monitor.upscale_failed"), events.MonitorUpscaleFailed(NOW)),
        (an_event("monitor.downscale_allowed"), events.MonitorDownscaleAllowed()),
        (an_event("monitor.downscale_denied"), events.MonitorDownscaleDenied(NOW)),
        (an_event("monitor.downscale_failed"), events.MonitorDownscaleFailed(NOW)),
        (an_event("platform.starting", resources=USE), events.PlatformStarting(SIZE)),
        (an_event("platform.success"), events.PlatformSuccessful()),
        (an_event("platform.failed"), events.PlatformFailed(NOW)),
        (an_event("platform.observed", resources=USE), events.PlatformObserved(NOW, SIZE)),
    ],
    ids=lambda value: value["op"] if isinstance(value, dict) else "",
)
def test_each_event_of_the_schema_is_read(event: Json, expected: events.Event | None) -> None:
    script = read_script(a_script(a_new(), event))
    assert script.steps[1].event == expected
    assert script.steps[1].now == 1_000


def a_script_without(path: list[str | int]) -> Json:
    script: Json = json.loads(json.dumps(a_script(*settled(), an_event("updated_vm", vm=VM))))
    part: object = script
    for name in path[:-1]:
        part = part[name]  # type: ignore[index]
    del part[path[-1]]  # type: ignore[attr-defined]
    return script


@pytest.mark.parametrize(
    "path",
    [
        ["id"],
        ["steps"],
        ["steps", 1, "event"],
        ["steps", 0, "event", "op"],
        ["steps", 0, "event", "vm"],
        ["steps", 0, "event", "config"],
        ["steps", 0, "event", "config", "monitor_retry_wait_ms"],
        ["steps", 0, "event", "config", "default_scaling_config", "memory_usage_fraction_target"],
        ["steps", 0, "event", "vm", "mem", "use"],
        ["steps", 1, "event", "now_ms"],
        ["steps", 2, "event", "active"],
        ["steps", 3, "event", "resources"],
        ["steps", 4, "event", "permit", "cpu_m"],
        ["steps", 4, "event", "compute_unit"],
        ["steps", 5, "event", "vm", "slot_bytes"],
    ],
)
def test_a_missing_field_is_named_by_its_path(path: list[str | int]) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_script(a_script_without(path))
    named = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
    assert caught.value.where == named
    assert caught.value.problem == "is missing"


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        (an_event("plugin.explode"), "steps[1].event.op: is not an event that is known"),
        (a_new(), "steps[1].event.op: `new` is only the first event"),
        (an_event("next", 999), "steps[1].event.now_ms: goes back from 1000 to 999"),
        (an_event("next", True), "steps[1].event.now_ms: must be an integer, not true or false"),
        ({"op": "next", "now_ms": 1e3}, "steps[1].event.now_ms: must be an integer, not a number"),
        ({"op": ["next"], "now_ms": 1000}, "steps[1].event.op: must be a string, not an array"),
        (an_event("metrics"), "steps[1].event.metrics: is missing"),
        (
            an_event("metrics", metrics={"load1": "1", "load5": 0, "mem_bytes": 0}),
            "steps[1].event.metrics.load1: must be a number, not a string",
        ),
        (
            an_event("metrics", metrics={"load1": 1e39, "load5": 0, "mem_bytes": 0}),
            "steps[1].event.metrics.load1: must be a finite number in the range of single precision",
        ),
        (
            an_event("metrics", metrics={"load1": 10**400, "load5": 0, "mem_bytes": 0}),
            "steps[1].event.metrics.load1: must be a finite number in the range of single precision",
        ),
        (
            an_event("platform.starting", resources={"cpu_m": 2**63, "mem": 1}),
            f"steps[1].event.resources.cpu_m: must be between 0 and {2**63 - 1}",
        ),
        (
            an_event("platform.starting", resources={"cpu_m": -1, "mem": 1}),
            f"steps[1].event.resources.cpu_m: must be between 0 and {2**63 - 1}",
        ),
        (an_event("monitor.active", active=1), "steps[1].event.active: must be true or false, not a number"),
        (
            an_event("mode", mode="off", compute_unit=None),
            "steps[1].event.mode: must be 'scale' or 'observe'",
        ),
        (
            an_event("updated_vm", vm={**VM, "scaling_config": {"load_average_fraction_target": 0}}),
            "steps[1].event.vm.scaling_config.load_average_fraction_target: must be above 0",
        ),
    ],
)
def test_a_wrong_field_is_told_by_its_path(event: Json, problem: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_script(a_script(a_new(), event))
    assert str(caught.value) == problem


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (None, "value"),
        ([], "value"),
        ({"id": 3, "steps": []}, "id"),
        ({"id": "a", "steps": {}}, "steps"),
        ({"id": "a", "steps": []}, "steps"),
        ({"id": "a", "steps": [7]}, "steps[0]"),
        ({"id": "a", "steps": [{"event": an_event("next")}]}, "steps[0].event.op"),
        (a_script(a_new(), expects={0: []}), "steps[0].expect"),  # type: ignore[dict-item]
        (a_script(a_new(snapshot=[])), "steps[0].event.snapshot"),
        (a_script(a_new(snapshot={"version": 9})), "steps[0].event.snapshot.version"),
    ],
)
def test_what_is_no_script_is_refused(value: object, where: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_script(value)
    assert caught.value.where == where


def test_a_recording_can_begin_in_the_middle_of_a_life() -> None:
    *_, last = run_script(read_script(a_script(*settled())))
    continued = read_script(a_script(a_new(2_000, snapshot=to_snapshot(last.state))))
    (answer,) = run_script(continued)
    assert answer.state == last.state
    assert answer.actions == next_actions(last.state, Millis(2_000))


def test_a_snapshot_keeps_the_size_that_was_believed_and_takes_the_settings_of_the_event() -> None:
    *_, last = run_script(read_script(a_script(*settled(), an_event("platform.observed", resources=UNIT))))
    config = {**CONFIG, "monitor_retry_wait_ms": 1}
    begun = a_script(an_event("new", 2_000, vm=VM, config=config, snapshot=to_snapshot(last.state)))
    state = read_script(begun).initial
    assert state.vm.use == resources(250, 1)
    assert state.config.monitor_retry_wait == 1
    assert state.plugin == last.state.plugin
