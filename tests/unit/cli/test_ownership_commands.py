"""`leases`, `agents` and `drain` against stores in memory."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from app.cli.drain import NOT_DRAINED
from app.cli.fleet_access import FleetAccess
from app.cli.root import root
from app.cluster.lease import LeaseTimes
from app.cluster.ring import bucket_names
from app.errors import UsageError, VmscalerError
from app.ports.store import BucketName, VmWrite
from app.ports.vm import VmKey
from app.services.draining import Draining
from app.services.instructing import Author
from app.services.lease_listing import LeaseListing
from app.services.ownership import LOOK_EVERY_S
from tests.fakes.agents import MemoryAgents
from tests.fakes.clock import FakeClock
from tests.fakes.drains import MemoryDrains
from tests.fakes.leases import MemoryLeases
from tests.fakes.owners import Owner
from tests.fakes.shown_fleet import ShownFleet, inspection, instructing
from tests.fakes.states import MemoryState
from tests.fakes.ticks import MemoryTicks

TIMES = LeaseTimes(duration_s=15, renew_every_s=2, give_up_after_s=10)
NAMES = [BucketName(name) for name in bucket_names(4)]
HOSTILE = "\x1b[2Jbob\r\n\u202e" + "B" * 10_000


class Fleet:
    """Workers on stores in memory; sleeping lets them go on."""

    def __init__(self, *names: str) -> None:
        self.clock = FakeClock()
        self.leases = MemoryLeases(self.clock, NAMES, duration_s=TIMES.duration_s)
        self.agents, self.states = MemoryAgents(self.clock), MemoryState(self.clock)
        self.ticks = MemoryTicks(self.clock)
        self.workers = [Owner(name, self.leases, self.clock, len(NAMES), TIMES) for name in names]
        for name in names:
            facts = json.dumps({"kind": "worker", "name": name}).encode()
            self.agents.register(name, facts, 10_000)
        self.pass_time(25)

    def pass_time(self, seconds: float) -> None:
        for _ in range(max(round(seconds / LOOK_EVERY_S), 1)):
            for worker in self.workers:
                worker.round()
            self.clock.advance(LOOK_EVERY_S)

    def run(self, *arguments: str) -> tuple[int, str]:
        drains = MemoryDrains(self.leases)
        service: object = Draining(drains, self.leases, self.agents, self.clock, self.pass_time)
        if arguments[0] == "leases":
            service = LeaseListing(self.leases, self.states, self.ticks, NAMES)
        return run(service, *arguments)


def run(service: object, *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(root, arguments, obj=service, standalone_mode=False)
    if isinstance(result.exception, VmscalerError):
        raise result.exception
    assert result.exception is None, result.exception
    return result.return_value or 0, result.output


def rows(output: str) -> list[list[str]]:
    return [line.split() for line in output.splitlines()]


def test_leases_tell_holder_token_age_vms_and_last_tick() -> None:
    fleet = Fleet("ann", "bob")
    token = fleet.workers[0].begun[sorted(fleet.workers[0].begun)[0]]
    bucket = sorted(fleet.workers[0].begun)[0]
    fleet.ticks.take_due(len(NAMES), 5.0)
    fleet.states.commit(bucket, token, [VmWrite(VmKey("ns/a"), b"{}"), VmWrite(VmKey("ns/b"), b"{}")])
    fleet.pass_time(3)
    _, output = fleet.run("leases")
    assert output.startswith("4 of 4 buckets held\n")
    (row,) = [row for row in rows(output) if row[:1] == [bucket]]
    assert row[1:3] == ["ann_10.0.0.1", str(token)]
    assert row[-4:] == ["2", "3", "s", "ago"]
    _, output = fleet.run("leases", "--json")
    document = json.loads(output)
    (shape,) = [lease for lease in document["leases"] if lease["bucket"] == bucket]
    assert (shape["holder"], shape["token"], shape["vms"], shape["note"]) == ("ann_10.0.0.1", token, 2, "")
    assert document["now_ms"] - shape["acquired_ms"] == shape["age_ms"]
    assert document["silence_ms"] == 0


def test_leases_say_why_nobody_holds_a_bucket() -> None:
    fleet = Fleet("ann")
    fleet.leases.lose_everything()
    fleet.workers.clear()
    assert "no live worker" not in fleet.run("leases")[1]
    assert "nobody may take a bucket for another 15 s" in fleet.run("leases")[1]
    stranger = Owner("new", fleet.leases, fleet.clock, len(NAMES), TIMES)
    stranger.ownership.step()
    fleet.clock.advance(6)
    assert "nobody takes it for another 9 s" in fleet.run("leases")[1]
    fleet.clock.advance(60)
    assert fleet.run("leases")[1].count("no live worker") == 4
    fleet.leases.draining.add("new")
    stranger.ownership.step()
    assert fleet.run("leases")[1].count("all live workers drain") == 4


def test_leases_say_that_a_replica_lets_nobody_hold_a_bucket() -> None:
    fleet = Fleet("ann")
    fleet.clock.advance(60)
    fleet.leases.is_read_only = True
    assert fleet.run("leases")[1].count("Redis is a read-only replica") == 4


def test_leases_show_a_holder_that_gives_no_sign_of_life() -> None:
    fleet = Fleet("ann")
    fleet.leases.leave(fleet.workers[0].holder)
    assert fleet.run("leases")[1].count("no heartbeat of its holder; free in") == 4


def test_a_drained_worker_hands_over_while_the_command_waits() -> None:
    fleet = Fleet("ann", "bob")
    status, output = fleet.run("drain", "ann", "--wait", "--reason", "new kernel")
    assert status == 0
    assert "ann hands over 2 buckets and takes none" in output
    assert "ann holds nothing any more" in output
    assert fleet.workers[0].ownership.held() == frozenset()
    fleet.pass_time(1)
    assert fleet.workers[1].ownership.held() == set(NAMES)


def test_a_drain_that_does_not_end_in_time_is_status_1() -> None:
    fleet = Fleet("ann", "bob")
    stopped = fleet.workers.pop(0)
    status, output = fleet.run("drain", "ann", "--wait", "--timeout", "5s", "--json")
    assert status == NOT_DRAINED
    assert json.loads(output) == {"worker": "ann", "agent_id": "ann", "draining": True, "held": 2}
    assert len(stopped.ownership.held()) == 2


def test_a_drain_is_undone() -> None:
    fleet = Fleet("ann", "bob")
    fleet.run("drain", "ann", "--wait")
    assert fleet.leases.draining == {"ann"}
    # The command is a process of its own each time: the drain stands in the store.
    service = Draining(MemoryDrains(fleet.leases), fleet.leases, fleet.agents, fleet.clock, fleet.pass_time)
    service.drain(service.find("ann"), Author("ada@ops"), is_forced=False)
    _, output = run(service, "drain", "ann", "--undo")
    assert output == "ann takes buckets again\n"
    fleet.pass_time(15)
    assert len(fleet.workers[0].ownership.held()) == 2
    assert "nothing to undo" in run(service, "drain", "ann", "--undo")[1]


def test_the_last_worker_is_drained_only_by_force() -> None:
    fleet = Fleet("ann")
    with pytest.raises(UsageError, match=r"nobody would own them.*--force"):
        fleet.run("drain", "ann")
    assert fleet.leases.draining == set()
    status, _ = fleet.run("drain", "ann", "--force", "--wait")
    assert status == 0
    assert fleet.workers[0].ownership.held() == frozenset()


def test_workers_that_drain_already_take_nothing_from_one_more() -> None:
    fleet = Fleet("ann", "bob")
    fleet.run("drain", "ann", "--wait")
    with pytest.raises(UsageError, match="nobody would own them"):
        fleet.run("drain", "bob")


def test_an_unknown_worker_is_told_with_those_that_are_known() -> None:
    with pytest.raises(UsageError, match=r"unknown worker b\\x1b; live workers: ann, bob$"):
        Fleet("ann", "bob").run("drain", "b\x1b")
    with pytest.raises(UsageError, match="live workers: none"):
        Fleet().run("drain", "ann")


def test_of_two_processes_of_one_name_the_agent_id_tells() -> None:
    fleet = Fleet("ann", "bob")
    fleet.agents.register("other", b'{"kind":"worker","name":"ann"}', 100)
    with pytest.raises(UsageError, match="several workers are called ann; give an agentID: ann, other"):
        Draining(MemoryDrains(fleet.leases), fleet.leases, fleet.agents, fleet.clock, fleet.pass_time).find(
            "ann"
        )
    assert "hands over" in fleet.run("drain", "bob")[1]


def test_undo_goes_with_no_other_wish() -> None:
    with pytest.raises(UsageError, match="--undo"):
        Fleet("ann", "bob").run("drain", "ann", "--undo", "--wait")


def run_agents(fleet: ShownFleet, *options: str) -> str:
    return run(FleetAccess(inspection(fleet), instructing(fleet)), "agents", *options)[1]


def test_agents_stand_in_the_order_of_their_registration() -> None:
    fleet = ShownFleet()
    facts: dict[str, object] = {
        "identity": "zoe_fe80::1",
        "address": "10.0.0.1:9100",
        "buckets": ["b"],
        "vms": 3,
    }
    fleet.add_agent("worker", "zoe", **facts, protocol={"min": 1, "max": 2})
    fleet.add_agent("beat", "beat", problems=["late"])
    output = run_agents(fleet)
    assert [row[1] for row in rows(output)] == ["NAME", "zoe", "beat"]
    assert "zoe_fe80::1" in output
    assert "1 to 2" in output
    assert output.splitlines()[2].endswith("late")
    shapes = json.loads(run_agents(fleet, "--json"))["agents"]
    assert [shape["number"] for shape in shapes] == [1, 2]
    assert shapes[0]["protocol"] == {"min": 1, "max": 2}
    assert shapes[0]["draining"] is False


def test_hostile_entries_of_the_registry_are_escaped_cut_and_bounded() -> None:
    fleet = ShownFleet()
    fleet.add_agent("worker", HOSTILE, identity=HOSTILE, address=HOSTILE, problems=[HOSTILE] * 100)
    fleet.add_agent("worker", "fat", version="x" * 300_000)
    for number in range(1_200):
        fleet.add_agent("sim", f"sim-{number}")
    output = run_agents(fleet)
    assert "\x1b" not in output
    assert "\u202e" not in output
    assert len(output.splitlines()) == 1_002
    assert output.endswith("… and 202 processes more\n")
    assert max(map(len, output.splitlines())) < 2_000
    document = json.loads(run_agents(fleet, "--json"))
    assert (len(document["agents"]), document["left_out"]) == (1_000, 202)
    assert document["agents"][1]["kind"] == "unreadable"
