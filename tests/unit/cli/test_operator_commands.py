import json
import re
from typing import Any

import pytest
from click.testing import CliRunner

from app.cli.fleet_access import FleetAccess
from app.cli.root import root
from app.core.model import Millis
from app.errors import UsageError, VmscalerError
from app.ports.vm import VmKey
from app.services.taking_up import take_up
from tests.fakes.shown_fleet import (
    BUCKETS,
    NOW,
    ShownFleet,
    ShownIntents,
    bucket_of,
    inspection,
    instructing,
)
from tests.fakes.shown_records import runner, sample, show

HOSTILE = "\x1b[2J\r\n\u202e\u2028" + "B" * 10_240
SIZE = {"cpu_m": 2500, "mem": 10}


def a_fleet(*keys: str) -> ShownFleet:
    fleet = ShownFleet()
    fleet.hold("w1")
    fleet.add_agent("worker", "w1", started_ms=NOW - 60_000, pid=4711, buckets=list(BUCKETS), vms=len(keys))
    fleet.add_agent("beat", "beat-1")
    for key in keys:
        vm = runner(fleet, key)
        sample(vm, 2.1, 1.0)
        show(fleet, vm)
    return fleet


def run(fleet: ShownFleet, *arguments: str) -> tuple[int, str]:
    """Exit status and output; an error of ours is raised, as the root's `run` sees it."""
    access = FleetAccess(inspection(fleet), instructing(fleet))
    result = CliRunner().invoke(root, arguments, obj=access, standalone_mode=False)
    if isinstance(result.exception, VmscalerError):
        raise result.exception
    assert result.exception is None, result.exception
    return result.return_value or 0, result.output


def run_json(fleet: ShownFleet, *arguments: str) -> dict[str, Any]:
    _, output = run(fleet, *arguments, "--json")
    document = json.loads(output)
    assert isinstance(document, dict)
    return document


def let_owner_take_up(fleet: ShownFleet) -> None:
    """At its tick the owner of every VM reads the intents and writes its record."""
    for records in list(fleet.records.values()):
        for key in list(records):
            vm = runner(fleet, key)
            sample(vm, 2.1, 1.0)
            take_up(ShownIntents(fleet).list(bucket_of(key)), [vm])
            vm.decide()
            show(fleet, vm)


def test_status_of_a_healthy_fleet_is_zero() -> None:
    status, output = run(a_fleet("ns/a"), "status")
    assert status == 0
    assert output.startswith("healthy\n")
    assert "4 of 4 held" in output
    assert "worker" in output


def test_status_is_one_when_something_needs_a_look_and_says_what() -> None:
    fleet = a_fleet("ns/a")
    del fleet.published["w1"]
    status, output = run(fleet, "status")
    assert status == 1
    assert "needs a look: 1 problem" in output
    assert "! no live worker" in output
    assert run_json(fleet, "status")["problems"][0]["code"] == "no-workers"


def test_status_as_json_has_stable_keys() -> None:
    shape = run_json(a_fleet("ns/a"), "status")
    assert list(shape) == [
        "healthy",
        "now_ms",
        "problems",
        "vms",
        "now",
        "desired",
        "last_poll_ms",
        "counters",
        "agents",
        "buckets",
    ]
    assert shape["healthy"] is True
    assert shape["vms"]["total"] == 1


def test_the_list_shows_one_line_a_vm_with_sizes_and_why() -> None:
    _, output = run(a_fleet("ns/a", "ns/b"), "vm", "list")
    lines = output.splitlines()
    assert len(lines) == 3
    assert lines[0].split()[:3] == ["VM", "BUCKET", "WORKER"]
    assert "1.0 → 2.25" in lines[1]
    assert "4 → 9 GiB" in lines[1]
    assert "load1 2.10 / 0.9 = 2.33 CPUs" in lines[1]


def test_an_empty_fleet_is_said_to_be_empty() -> None:
    assert run(ShownFleet(), "vm", "list") == (0, "no VM is known yet\n")
    shown = {"now_ms": NOW, "vms": [], "unreadable": [], "problems": []}
    assert run_json(ShownFleet(), "vm", "list") == shown


def test_vms_that_cannot_be_read_at_the_platform_are_listed_with_the_path_of_the_field() -> None:
    fleet = a_fleet("ns/a")
    what = ".spec.guest.memorySlots.max: must be a whole number of slots"
    fleet.add_agent("worker", "w1", unreadable={"ns/a": what, "ns/b\x1b": what})
    _, output = run(fleet, "vm", "list")
    assert f"can't be read, so left alone: ns/a: {what}" in output
    shape = run_json(fleet, "vm", "list")
    assert shape["unreadable"] == ["ns/a", "ns/b\\x1b"]
    assert shape["problems"][0] == f"ns/a: {what}"
    assert f"no size is asked for: {what}" in run(fleet, "explain", "a")[1]


def test_one_vm_is_shown_by_its_name_alone() -> None:
    _, output = run(a_fleet("ns/a"), "vm", "show", "a")
    assert output.startswith("ns/a\n")
    assert "0.25 CPU, 1 GiB to 4 CPU, 16 GiB" in output
    shape = run_json(a_fleet("ns/a"), "vm", "show", "a")
    assert shape["vm"] == "ns/a"
    assert shape["desired"] == {"cpu_m": 2250, "mem": 9, "mem_bytes": 9 << 30}
    assert shape["lease"]["holder"] == "w1_127.0.0.1"


@pytest.mark.parametrize("command", [["vm", "show"], ["explain"], ["events"], ["pause"], ["resume"]])
def test_an_unknown_and_an_ambiguous_name_are_one_clear_line(command: list[str]) -> None:
    fleet = a_fleet("dev/db", "prod/db")
    with pytest.raises(UsageError, match="several VMs are called db: dev/db, prod/db"):
        run(fleet, *command, "db")
    with pytest.raises(UsageError, match="unknown VM prod/dbb; near: prod/db"):
        run(fleet, *command, "prod/dbb")
    assert fleet.standing == {}


def test_explain_tells_decision_sample_and_owner() -> None:
    fleet = a_fleet("ns/a")
    fleet.now = Millis(NOW + 3_000)
    _, output = run(fleet, "explain", "a")
    assert "decided 3 s ago, at 12:00:00 UTC" in output
    assert "load1 2.10, load5 1.05, memory 1 GiB; 3 s ago" in output
    assert "w1, bucket" in output
    shape = run_json(fleet, "explain", "a")
    assert shape["goal"]["cpu_units"] == 9
    assert shape["targets"] == {"load_average_fraction": 0.9, "memory_usage_fraction": 0.75}
    assert shape["not_taken_up"] == []


def test_events_tell_what_from_to_why_who_and_when() -> None:
    fleet = a_fleet("ns/a")
    assert run(fleet, "events", "a") == (0, "ns/a: nothing has happened yet\n")
    entry = {"kind": "upscale", "from": {"cpu_m": 1000, "mem": 4}, "to": SIZE, "why": "load", "who": "w1"}
    fleet.add_event(VmKey("ns/a"), NOW - 65_000, **entry, outcome="observed")
    _, output = run(fleet, "events", "a")
    assert output.splitlines()[1].split("  ")[0] == "11:58:55"
    for text in ("upscale", "1 CPU, 4 GiB", "2.5 CPU, 10 GiB", "load (observed)", "w1", "65 s ago"):
        assert text in output
    (shown,) = run_json(fleet, "events", "a")["events"]
    assert shown["to"] == {**SIZE, "mem_bytes": 10 << 30}
    assert list(shown) == ["at_ms", "kind", "from", "to", "why", "who", "outcome"]


def test_events_are_the_newest_ones_with_the_newest_last() -> None:
    fleet = a_fleet("ns/a")
    for i in range(60):
        fleet.add_event(VmKey("ns/a"), NOW - 60 + i, kind="denied", why=f"no {i}")
    events = run_json(fleet, "events", "a", "--limit", "2")["events"]
    assert [event["why"] for event in events] == ["no 58", "no 59"]
    assert len(run_json(fleet, "events", "a")["events"]) == 50


def test_the_trail_of_a_vm_that_is_gone_is_found_by_its_full_name() -> None:
    fleet = a_fleet("ns/a")
    fleet.add_event(VmKey("ns/gone"), NOW, kind="deleted", to=SIZE)
    _, output = run(fleet, "events", "ns/gone")
    assert "deleted" in output
    assert "2.5 CPU, 10 slots" in output
    with pytest.raises(UsageError):
        run(fleet, "events", "gone")


def test_an_entry_that_cannot_be_read_hides_no_other() -> None:
    fleet = a_fleet("ns/a")
    fleet.trails[VmKey("ns/a")] = [(NOW - 1, b"\xff"), (NOW, b'{"kind": "added"}')]
    kinds = [event["kind"] for event in run_json(fleet, "events", "a")["events"]]
    assert kinds == ["unreadable", "added"]
    assert "unreadable" in run(fleet, "events", "a")[1]


def test_pausing_says_until_when_and_that_the_owner_took_it_up() -> None:
    fleet = a_fleet("ns/a")
    fleet.on_sleep = lambda: let_owner_take_up(fleet)
    status, output = run(fleet, "pause", "a", "--for", "10m", "--reason", "upgrade")
    assert status == 0
    assert output == "paused ns/a until 12:10:00 UTC (in 10 min): upgrade\ntaken up by the owner\n"
    assert "paused by" in run(fleet, "explain", "a")[1]


def test_pausing_without_a_live_owner_is_recorded_and_said_so() -> None:
    fleet = a_fleet("ns/a")
    status, output = run(fleet, "pause", "a")
    assert status == 0
    assert output.endswith("until it is resumed\nrecorded; no owner has taken it up yet\n")
    shape = run_json(fleet, "pause", "a")
    assert (shape["taken_up"], shape["waiting"]) == (False, ["ns/a"])
    assert "not taken up  pause" in run(fleet, "explain", "a")[1]


def test_all_are_paused_and_resumed_in_every_bucket() -> None:
    fleet = a_fleet("ns/a", "ns/b")
    fleet.on_sleep = lambda: let_owner_take_up(fleet)
    _, output = run(fleet, "pause", "--all")
    assert output == "paused all VMs (2 VMs now) until it is resumed\ntaken up for all 2 VMs\n"
    assert all(fleet.standing[bucket] for bucket in BUCKETS)
    _, output = run(fleet, "resume", "--all")
    assert output.startswith("resumed all VMs\n  was paused: all VMs until it is resumed, by ")
    assert output.endswith("taken up for all 2 VMs\n")
    assert run_json(fleet, "status")["vms"]["paused"] == 0


def test_resuming_what_is_not_paused_says_so() -> None:
    fleet = a_fleet("ns/a")
    assert "ns/a: not paused, nothing to resume" in run(fleet, "resume", "a")[1]
    assert "no VM is paused" in run(fleet, "resume", "--all")[1]


def test_pause_and_resume_want_a_vm_or_all_and_not_both() -> None:
    fleet = a_fleet("ns/a")
    for verb in ("pause", "resume"):
        with pytest.raises(UsageError, match="name a VM, or say --all"):
            run(fleet, verb)
        with pytest.raises(UsageError, match="not both"):
            run(fleet, verb, "a", "--all")
    with pytest.raises(UsageError, match="is not a duration"):
        run(fleet, "pause", "a", "--for", "soon")
    assert fleet.standing == {}


def test_a_mode_is_set_and_given_back() -> None:
    fleet = a_fleet("ns/a")
    fleet.on_sleep = lambda: let_owner_take_up(fleet)
    _, output = run(fleet, "vm", "set", "a", "--mode", "observe", "--reason", "look first")
    assert output.endswith("observe\ntaken up by the owner\n")
    shape = run_json(fleet, "vm", "show", "a")
    assert shape["mode"] == "observe"
    assert "@" in shape["mode_by"]
    assert shape["mode_reason"] == "look first"
    assert re.search(r"observe, set by \S+@\S+: look first\n", run(fleet, "explain", "a")[1])
    assert run_json(fleet, "vm", "set", "a", "--mode", "default")["taken_up"] is True
    assert run_json(fleet, "vm", "show", "a")["mode_by"] == "platform"


@pytest.mark.parametrize("as_json", [False, True])
def test_no_command_lets_a_hostile_text_through(as_json: bool) -> None:
    fleet = a_fleet("ns/a")
    vm = runner(fleet, "ns/a")
    sample(vm, 2.1, 1.0)
    vm.reject_sample(HOSTILE)
    step = {"at_ms": NOW, "kind": HOSTILE, "from": SIZE, "to": SIZE, "why": HOSTILE}
    pause = {"until_ms": None, "reason": HOSTILE, "author": HOSTILE, "since_ms": NOW}
    show(
        fleet,
        vm,
        status="errored",
        status_reason=HOSTILE,
        mode_by=HOSTILE,
        mode_reason=HOSTILE,
        last=step,
        pause=pause,
        node=HOSTILE,
    )
    fleet.add_event(VmKey("ns/a"), NOW, kind=HOSTILE, why=HOSTILE, who=HOSTILE, outcome=HOSTILE)
    fleet.add_agent("worker", HOSTILE, address=HOSTILE, problems=[HOSTILE])
    for command in (["status"], ["vm", "list"], ["vm", "show", "a"], ["explain", "a"], ["events", "a"]):
        _, output = run(fleet, *command, *(["--json"] if as_json else []))
        assert all(line.isprintable() for line in output.split("\n"))
        assert "B" * 201 not in output


def test_a_hostile_reason_is_stored_harmless() -> None:
    fleet = a_fleet("ns/a")
    _, output = run(fleet, "pause", "a", "--reason", HOSTILE)
    assert all(line.isprintable() for line in output.split("\n"))
    (intent,) = ShownIntents(fleet).list(bucket_of(VmKey("ns/a")))
    assert len(intent.reason) <= 200
    assert intent.reason.isprintable()
