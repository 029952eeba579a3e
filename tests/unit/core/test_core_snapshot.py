from __future__ import annotations

import json
from typing import Any

import pytest

from app.core import events
from app.core.model import Millis, Mode, ScalingConfig
from app.core.resources import resources
from app.core.snapshot import SNAPSHOT_VERSION, from_snapshot, to_snapshot
from app.core.state import State
from app.errors import InvalidInput
from tests.core_builders import UNIT, a_settled_state, a_vm, after, at, with_load

SIZE = resources(500, 2)


def a_full_state() -> State:
    return after(
        a_settled_state(a_vm(scaling_config=ScalingConfig(0.7, 0.8))),
        with_load(1.5, 2.5),
        events.MonitorUpscaleRequested(at(10), cpu=True, memory=False),
        events.MonitorStartingUpscale(at(20), SIZE),
        events.MonitorUpscaleFailed(at(30)),
        events.MonitorStartingDownscale(at(40), SIZE),
        events.MonitorDownscaleDenied(at(50)),
        events.MonitorStartingDownscale(at(60), SIZE),
        events.PluginStarting(at(70), SIZE),
        events.PluginFailed(at(80)),
        events.PluginStarting(at(90), SIZE),
        events.PlatformStarting(SIZE),
        events.PlatformFailed(at(100)),
        events.PlatformStarting(SIZE),
        events.ModeChanged(Mode.OBSERVE, UNIT),
    )


def a_snapshot() -> dict[str, Any]:
    loaded = json.loads(json.dumps(to_snapshot(a_full_state())))
    assert isinstance(loaded, dict)
    return loaded


@pytest.mark.parametrize("state", [a_full_state(), a_settled_state()])
def test_a_state_comes_back_as_it_was(state: State) -> None:
    assert from_snapshot(json.loads(json.dumps(to_snapshot(state))), at(100)) == state


def test_times_that_lie_in_the_future_become_now() -> None:
    state = from_snapshot(a_snapshot(), Millis(5))
    monitor, plugin = state.monitor, state.plugin
    assert monitor.denied_downscale is not None
    assert monitor.requested_upscale is not None
    assert plugin.last_request is not None
    found = {
        monitor.denied_downscale.at,
        monitor.requested_upscale.at,
        monitor.upscale_failed_at,
        plugin.last_request.at,
        plugin.failed_at,
        state.platform.failed_at,
    }
    assert found == {5}


def test_times_that_have_passed_stay() -> None:
    assert from_snapshot(a_snapshot(), at(99)).platform.failed_at == at(99)
    assert from_snapshot(a_snapshot(), at(99)).plugin.failed_at == at(80)


@pytest.mark.parametrize("version", [0, SNAPSHOT_VERSION + 1])
def test_another_version_is_refused(version: int) -> None:
    with pytest.raises(InvalidInput) as caught:
        from_snapshot({**a_snapshot(), "version": version}, at(100))
    assert caught.value.where == "version"


def test_fields_of_a_later_version_are_ignored() -> None:
    snapshot = a_snapshot()
    snapshot["later"] = {"x": 1}
    snapshot["plugin"]["later"] = True
    assert from_snapshot(snapshot, at(100)) == a_full_state()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("version", "1"),
        ("vm", None),
        ("vm.slot_bytes", 0),
        ("vm.cpu_m.min", -1),
        ("vm.cpu_m.use", True),
        ("vm.mem.max", 1.0),
        ("vm.name", 3),
        ("vm.scaling_config.load_average_fraction_target", 0),
        ("config.platform_retry_wait_ms", 2**63),
        ("config.default_scaling_config", []),
        ("plugin.alive", 1),
        ("plugin.compute_unit", {"cpu_m": 0, "mem": 1}),
        ("plugin.last_request", None),
        ("plugin.last_request.at_ms", -1),
        ("plugin.permit", "much"),
        ("monitor.ongoing.kind", "sideways"),
        ("monitor.requested_upscale.cpu", None),
        ("monitor.denied_downscale.current", {"cpu_m": 1}),
        ("monitor.upscale_failed_at_ms", "soon"),
        ("platform", 7),
        ("metrics", {"load1": -1.0, "load5": 0, "mem_bytes": 0}),
        ("metrics.load5", float("nan")),
        ("metrics.mem_bytes", 10**400),
        ("mode", "off"),
        ("observe_unit", {"cpu_m": 1, "mem": 0}),
    ],
)
def test_what_is_wrong_is_told_by_its_field(path: str, value: object) -> None:
    snapshot = a_snapshot()
    *parents, name = path.split(".")
    part = snapshot
    for parent in parents:
        part = part[parent]
    part[name] = value
    with pytest.raises(InvalidInput) as caught:
        from_snapshot(snapshot, at(100))
    assert caught.value.where.startswith(path.split(".")[0])
    assert caught.value.problem


def every_path(part: dict[str, Any], prefix: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    paths: list[tuple[str, ...]] = []
    for name, value in part.items():
        paths.append((*prefix, name))
        if isinstance(value, dict):
            paths += every_path(value, (*prefix, name))
    return paths


NULLABLE = {
    ("vm", "name"),
    ("vm", "namespace"),
    ("vm", "scaling_config"),
    ("plugin", "compute_unit"),
    ("plugin", "failed_at_ms"),
    ("plugin", "permit"),
    ("monitor", "ongoing"),
    ("monitor", "requested_upscale"),
    ("monitor", "denied_downscale"),
    ("monitor", "approved"),
    ("monitor", "downscale_failed_at_ms"),
    ("monitor", "upscale_failed_at_ms"),
    ("platform", "ongoing"),
    ("platform", "failed_at_ms"),
    ("metrics",),
    ("observe_unit",),
}


@pytest.mark.parametrize("path", every_path(a_snapshot()), ids=".".join)
def test_a_missing_field_is_told_unless_it_may_be_none(path: tuple[str, ...]) -> None:
    snapshot = a_snapshot()
    part = snapshot
    for parent in path[:-1]:
        part = part[parent]
    del part[path[-1]]
    if path in NULLABLE:
        assert from_snapshot(snapshot, at(100)) != a_full_state() or path[-1] == "downscale_failed_at_ms"
        return
    with pytest.raises(InvalidInput) as caught:
        from_snapshot(snapshot, at(100))
    assert caught.value.where in (".".join(path), "plugin.ongoing")
