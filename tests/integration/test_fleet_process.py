"""The simulated fleet as a process: pages, monitors, sizes, faults, restart."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import websocket

from tests.fleet_process import FleetProcess, saved_state, until

_GIB = 1 << 30


@pytest.fixture
def fleet() -> Iterator[FleetProcess]:
    process = FleetProcess(vms=6)
    yield process
    process.stop()


@pytest.fixture(scope="module")
def untouched() -> Iterator[FleetProcess]:
    """One fleet for the tests that change nothing."""
    process = FleetProcess(vms=2)
    yield process
    process.stop()


def _pick(fleet: FleetProcess, **wanted: object) -> tuple[str, dict[str, Any]]:
    for key, vm in sorted(fleet.vms().items()):
        if all(vm[name] == value for name, value in wanted.items()):
            return key, vm
    raise AssertionError(f"no VM with {wanted}")


def _page(vm: dict[str, Any], session: requests.Session | None = None) -> requests.Response:
    address = vm["metrics"]
    return (session or requests).get(f"http://{address['host']}:{address['port']}/metrics", timeout=60)


def _value(text: str, name: str) -> float:
    found = [line for line in text.splitlines() if line.startswith(name + " ")]
    assert len(found) == 1, name
    return float(found[0].split()[1])


def _dial(vm: dict[str, Any], *, shake_hands: bool = True) -> websocket.WebSocket:
    address = vm["monitor_address"]
    url = f"ws://{address['host']}:{address['port']}/monitor"
    dialled = websocket.create_connection(url, timeout=30)
    if shake_hands:
        dialled.send('{"min": 1, "max": 1}')
        assert json.loads(dialled.recv()) == {"version": 1}
    return dialled


def _call(monitor: websocket.WebSocket, kind: str, content: dict[str, Any], number: int) -> dict[str, Any]:
    monitor.send(json.dumps({"content": content, "type": kind, "id": number}))
    while True:
        answer: dict[str, Any] = json.loads(monitor.recv())
        if answer["id"] == number:
            return answer


def _downscale(monitor: websocket.WebSocket, memory: int, number: int = 2) -> dict[str, Any]:
    return _call(monitor, "DownscaleRequest", {"target": {"cpu": 0.25, "mem": memory}}, number)


def test_a_page_is_like_node_exporters_and_its_connection_is_kept_alive(fleet: FleetProcess) -> None:
    _, vm = _pick(fleet)
    with requests.Session() as session:
        pages = [_page(vm, session) for _ in range(3)]
    assert all(50_000 < len(page.content) < 80_000 for page in pages)
    assert all(page.headers.get("Connection") != "close" for page in pages)
    text = pages[-1].text
    total = _value(text, "node_memory_MemTotal_bytes")
    assert 0 < _value(text, "node_memory_MemAvailable_bytes") < total
    assert total <= vm["observed"]["mem"] * vm["slot_bytes"]
    assert _value(text, "node_load1") >= 0
    assert _value(text, "node_load15") >= 0


def test_an_applied_size_changes_the_memory_that_the_page_shows(fleet: FleetProcess) -> None:
    key, vm = _pick(fleet, profile="spike")
    before = _value(_page(vm).text, "node_memory_MemTotal_bytes")
    fleet.ask(vm, 2000, 8)
    until(lambda: fleet.vm(key)["observed"] == {"cpu_m": 2000, "mem": 8}, "the size is applied")
    after = _value(_page(vm).text, "node_memory_MemTotal_bytes")
    assert after == pytest.approx(before / vm["observed"]["mem"] * 8, rel=1e-3)


def test_load_set_by_hand_raises_the_load_average(fleet: FleetProcess) -> None:
    key, _ = _pick(fleet, profile="idle")
    fleet.api("POST", f"/v1/vms/{key}/load", json={"cpu": 30.0, "mem_bytes": 1e7})
    until(lambda: fleet.vm(key)["physics"]["load1"] > 1.0, "the load rises")
    assert fleet.vm(key)["physics"]["cpu_demand"] == 30.0
    fleet.api("POST", f"/v1/vms/{key}/load", json={"reset": True})
    assert fleet.vm(key)["physics"]["cpu_demand"] < 1.0


def test_the_monitor_answers_health_checks_and_unknown_types(fleet: FleetProcess) -> None:
    monitor = _dial(_pick(fleet)[1])
    assert _call(monitor, "HealthCheck", {}, 2) == {"type": "HealthCheck", "id": 2}
    assert _call(monitor, "Nonsense", {}, 4)["type"] == "InvalidMessage"
    granted = {"granted": {"cpu": 1.0, "mem": 4 * _GIB}}
    assert _call(monitor, "UpscaleNotification", granted, 6) == {"type": "UpscaleConfirmation", "id": 6}
    monitor.close()


def test_a_downscale_is_refused_when_the_memory_is_needed_and_allowed_when_not(fleet: FleetProcess) -> None:
    key, vm = _pick(fleet, profile="steady", slot_bytes=_GIB)
    fleet.ask(vm, 1000, 8)
    until(lambda: fleet.vm(key)["observed"]["mem"] == 8, "the size is applied")
    fleet.api("POST", f"/v1/vms/{key}/load", json={"cpu": 0.1, "mem_bytes": 3 * _GIB})
    until(lambda: abs(fleet.vm(key)["physics"]["mem_used_bytes"] - 3 * _GIB) < 0.1 * _GIB, "memory follows")
    monitor = _dial(vm)
    refused = _downscale(monitor, 3 * _GIB, 2)
    assert (refused["type"], refused["Ok"]) == ("DownscaleResult", False)
    assert refused["Status"]
    assert _downscale(monitor, 5 * _GIB, 4)["Ok"] is True
    monitor.close()


def test_a_guest_that_needs_memory_asks_for_it_once_a_second_at_most(fleet: FleetProcess) -> None:
    key, vm = _pick(fleet, profile="idle")
    fleet.api("POST", f"/v1/vms/{key}/load", json={"cpu": 0.1, "mem_bytes": 50 * _GIB})
    monitor = _dial(vm)
    requests_seen = [json.loads(monitor.recv())]
    started = time.monotonic()
    requests_seen += [json.loads(monitor.recv()) for _ in range(2)]
    assert {seen["type"] for seen in requests_seen} == {"UpscaleRequest"}
    assert [seen["id"] % 2 for seen in requests_seen] == [1, 1, 1]
    assert time.monotonic() - started > 1.5
    monitor.close()


def test_a_new_agent_replaces_the_old_one(fleet: FleetProcess) -> None:
    _, vm = _pick(fleet)
    old, new = _dial(vm), _dial(vm)
    opcode, _ = old.recv_data()
    assert opcode == websocket.ABNF.OPCODE_CLOSE
    assert _call(new, "HealthCheck", {}, 2)["type"] == "HealthCheck"
    new.close()


def test_an_agent_of_another_version_is_refused(fleet: FleetProcess) -> None:
    monitor = _dial(_pick(fleet)[1], shake_hands=False)
    monitor.send('{"min": 7, "max": 9}')
    assert "error" in json.loads(monitor.recv())
    opcode, data = monitor.recv_data()
    assert (opcode, int.from_bytes(data[:2], "big")) == (websocket.ABNF.OPCODE_CLOSE, 1002)
    monitor.shutdown()


def test_a_monitor_that_denies_refuses_what_would_fit(fleet: FleetProcess) -> None:
    key, vm = _pick(fleet, profile="idle")
    monitor = _dial(vm)
    assert _downscale(monitor, 64 * _GIB, 2)["Ok"] is True
    fleet.fault("monitor-denies", vms=[key])
    assert _downscale(monitor, 64 * _GIB, 4)["Ok"] is False
    fleet.fault("monitor-denies", vms=[key], on=False)
    assert _downscale(monitor, 64 * _GIB, 6)["Ok"] is True
    monitor.close()


def test_a_silent_monitor_takes_the_connection_and_never_answers(fleet: FleetProcess) -> None:
    fleet.fault("monitor-silent")
    monitor = _dial(_pick(fleet)[1], shake_hands=False)
    monitor.send('{"min": 1, "max": 1}')
    monitor.settimeout(1.0)
    with pytest.raises(websocket.WebSocketTimeoutException):
        monitor.recv()
    monitor.shutdown()


def test_page_faults_break_the_named_vm_only(fleet: FleetProcess) -> None:
    keys = sorted(fleet.vms())
    fleet.fault("slow-page", vms=[keys[0]])
    vms = fleet.vms()
    address = vms[keys[0]]["metrics"]
    with pytest.raises(requests.Timeout):
        requests.get(f"http://{address['host']}:{address['port']}/metrics", timeout=(30, 1))
    assert _value(_page(vms[keys[1]]).text, "node_load1") >= 0


def test_part_of_a_size_is_applied_with_the_fault_of_that_name(fleet: FleetProcess) -> None:
    key, vm = _pick(fleet, profile="spike")
    fleet.fault("patch-partial", vms=[key])
    fleet.ask(vm, 2000, 8)
    until(lambda: fleet.vm(key)["observed"]["cpu_m"] == 2000, "the CPUs are applied")
    assert fleet.vm(key)["observed"]["mem"] == vm["observed"]["mem"]
    assert fleet.vm(key)["use"]["mem"] == 8
    fleet.fault("patch-partial", vms=[key], on=False)
    fleet.ask(fleet.vm(key), 2000, 8)
    until(lambda: fleet.vm(key)["observed"] == {"cpu_m": 2000, "mem": 8}, "asked again, it is applied")


def test_a_vm_deleted_in_the_middle_of_a_resize_is_gone_with_its_server(fleet: FleetProcess) -> None:
    key, vm = _pick(fleet)
    fleet.fault("vm-deleted", vms=[key])
    cursor = fleet.api("GET", "/v1/vms")["cursor"]
    fleet.ask(vm, 2250, 8)
    until(lambda: key not in fleet.vms(), "the VM is deleted")
    assert fleet.api("GET", f"/v1/vms?since={cursor}")["removed"] == [key]
    with pytest.raises(requests.ConnectionError):
        _page(vm)


def test_a_long_poll_ends_with_the_first_change(fleet: FleetProcess) -> None:
    _, vm = _pick(fleet)
    cursor = fleet.api("GET", "/v1/vms")["cursor"]
    assert fleet.api("GET", f"/v1/vms?since={cursor}&wait=0.2")["vms"] == []
    fleet.ask(vm, 2250, 8)
    changed = fleet.api("GET", f"/v1/vms?since={cursor}&wait=30")
    assert [each["name"] for each in changed["vms"]] == [vm["name"]]
    assert changed["full"] is False


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/nothing", None, 404),
        ("GET", "/v1/vms/sim/none", None, 404),
        ("PUT", "/v1/vms/{key}/size", {"cpu_m": 1000}, 400),
        ("PUT", "/v1/vms/{key}/size", {"cpu_m": True, "mem": 1, "basis": {"cpu_m": 1, "mem": 1}}, 400),
        ("PUT", "/v1/vms/{key}/size", {"cpu_m": -5, "mem": 1, "basis": {"cpu_m": 1, "mem": 1}}, 400),
        ("PUT", "/v1/vms/{key}/size", [1], 400),
        ("PUT", "/v1/vms/{key}/bounds", {"min": {"cpu_m": 9, "mem": 1}, "max": {"cpu_m": 8, "mem": 1}}, 400),
        ("POST", "/v1/faults", {"fault": "no-such"}, 400),
        ("POST", "/v1/faults", {"fault": "slow-page", "fraction": 2}, 400),
        ("POST", "/v1/faults", {"fault": "slow-page", "vms": ["sim/none"]}, 404),
        ("POST", "/v1/vms/{key}/load", {"cpu": "much"}, 400),
        ("GET", "/v1/vms?wait=soon", None, 400),
        ("PATCH", "/v1/vms", None, 404),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_with_a_reason(
    untouched: FleetProcess, method: str, path: str, body: object, status: int
) -> None:
    key, _ = _pick(untouched)
    headers = {"X-Vmscaler-Token": "1"}
    answer = untouched.api(method, path.replace("{key}", key), status=status, json=body, headers=headers)
    assert answer["error"]


def test_bounds_can_be_moved_below_the_size(fleet: FleetProcess) -> None:
    key, vm = _pick(fleet, profile="idle")
    bounds = {"min": {"cpu_m": 250, "mem": 1}, "max": {"cpu_m": 500, "mem": 2}}
    fleet.api("PUT", f"/v1/vms/{key}/bounds", json=bounds)
    changed = fleet.vm(key)
    assert changed["max"] == bounds["max"]
    assert changed["use"] == vm["use"]


def test_sizes_ports_tokens_and_deletions_survive_a_restart(tmp_path: Path) -> None:
    options = ("--state", str(tmp_path))
    first = FleetProcess(*options)
    keys = sorted(first.vms())
    first.ask(first.vms()[keys[0]], 3250, 7, token=5)
    first.api("DELETE", f"/v1/vms/{keys[1]}")
    until(lambda: first.vm(keys[0])["observed"] == {"cpu_m": 3250, "mem": 7}, "the size is applied")
    before = first.vms()
    assert first.stop() == 0
    assert saved_state(tmp_path).stat().st_mode & 0o777 == 0o600
    second = FleetProcess(*options)
    try:
        after = second.vms()
        assert sorted(after) == [keys[0], *keys[2:]]
        for key, vm in after.items():
            assert {name: vm[name] for name in ("uid", "use", "observed")} == {
                name: before[key][name] for name in ("uid", "use", "observed")
            }
        kept = [key for key in after if after[key]["metrics"] == before[key]["metrics"]]
        assert len(kept) >= len(after) - 1
        second.ask(after[keys[0]], 250, 1, token=4, status=409)
    finally:
        second.stop()


def test_an_accepted_size_is_applied_after_a_kill(tmp_path: Path) -> None:
    options = ("--state", str(tmp_path))
    first = FleetProcess(*options)
    key = sorted(first.vms())[0]
    first.fault("patch-not-applied")
    first.ask(first.vms()[key], 3250, 7)
    until(lambda: '"cpu_m":3250' in saved_state(tmp_path).read_text(), "the state is saved")
    first.stop(signal.SIGKILL)
    facts = json.loads(saved_state(tmp_path).read_text())
    facts["vms"][key]["pending"] = True
    saved_state(tmp_path).write_text(json.dumps(facts))
    second = FleetProcess(*options)
    try:
        until(lambda: second.vm(key)["observed"] == {"cpu_m": 3250, "mem": 7}, "the size is applied")
    finally:
        second.stop()


def test_a_state_file_that_is_none_is_one_clear_line(tmp_path: Path) -> None:
    saved_state(tmp_path).write_text('{"version": 9}')
    command = [sys.executable, "-c", "from app.cli.sim import sim_command; sim_command()"]
    done = subprocess.run(
        [*command, "--state", str(tmp_path), "--control", "127.0.0.1:0"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "fleet.json" in done.stderr


def test_the_journal_has_a_line_for_each_effect(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    fleet = FleetProcess("--journal", str(journal))
    try:
        key, vm = _pick(fleet)
        fleet.ask(vm, 2250, 8, token=3)
        until(lambda: fleet.vm(key)["observed"] == {"cpu_m": 2250, "mem": 8}, "the size is applied")
        fleet.ask(vm, 2250, 8, token=2, status=409)
    finally:
        fleet.stop()
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    assert [(line["effect"], line.get("status"), line["token"]) for line in lines] == [
        ("asked", 202, 3),
        ("applied", None, 3),
        ("asked", 409, 2),
    ]
    assert lines[1]["from"] == vm["observed"]
    assert lines[1]["to"] == {"cpu_m": 2250, "mem": 8}
    assert journal.stat().st_mode & 0o777 == 0o600


def test_this_machine_is_shown_as_an_observed_vm_that_nobody_may_change() -> None:
    fleet = FleetProcess("--observe-host", "--host-metrics", "127.0.0.1:9999", vms=1)
    try:
        key, host = _pick(fleet, mode="observe")
        assert key.startswith("host/")
        assert (host["monitor"], host["monitor_address"]) == ("none", None)
        assert host["metrics"] == {"host": "127.0.0.1", "port": 9999}
        assert host["use"] == host["observed"] == host["max"]
        fleet.ask(host, 250, 1, status=403)
        fleet.api("DELETE", f"/v1/vms/{key}", status=403)
        assert fleet.vm(key)["use"] == host["use"]
    finally:
        fleet.stop()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_status_0_also_with_connections_open(number: int) -> None:
    fleet = FleetProcess(vms=3)
    monitor = _dial(_pick(fleet)[1])
    assert fleet.stop(number) == 0
    opcode, _ = monitor.recv_data()
    assert opcode == websocket.ABNF.OPCODE_CLOSE
