from __future__ import annotations

import json

from app.core.model import Mode
from app.core.permits import Amount, Grant, Refusal, RefusalKind, Wish
from app.core.resources import resources
from app.errors import PeerUnreachable
from tests.fakes.scheduler_fleet import GIB, changed, machine, node_scheduler, whole


def ask(scheduler: object, name: str, cpu: int, slots: int) -> Grant | Refusal:
    return scheduler.request(f"ns/{name}", Wish(Amount(cpu, slots * GIB)))  # type: ignore[attr-defined, no-any-return]


def test_it_is_not_ready_until_the_fleet_was_listed() -> None:
    scheduler = node_scheduler(PeerUnreachable("sim", "connection refused"))
    assert not scheduler.is_ready
    assert "refused" in scheduler.problem
    answer = ask(scheduler, "a", 1000, 1)
    assert isinstance(answer, Refusal)
    assert answer.kind is RefusalKind.UNKNOWN_POD


def test_what_is_known_stays_while_the_platform_is_away() -> None:
    scheduler = node_scheduler(whole(machine("a")), PeerUnreachable("sim", "connection refused"))
    assert scheduler.is_ready
    assert isinstance(ask(scheduler, "a", 2000, 2), Grant)


def test_nodes_of_which_nobody_told_what_they_have_are_named() -> None:
    assert node_scheduler(whole(machine("a"))).problems == []
    scheduler = node_scheduler(whole(machine("a", node="n8"), machine("b", node="n9\x1b[2J")))
    assert scheduler.problems == [
        "VMs on n8 and 1 more get no permit: nodeScheduler.nodes does not say what is there"
    ]
    assert "\x1b" not in node_scheduler(whole(machine("b", node="n9\x1b[2J"))).problems[0]


def test_a_scaled_vm_counts_with_the_larger_of_its_real_size_and_the_one_asked_for() -> None:
    vm = machine("a", use=resources(1000, 3), observed=resources(2000, 1))
    scheduler = node_scheduler(whole(vm), cpu=0, gib=0)
    answer = ask(scheduler, "a", 4000, 4)
    assert isinstance(answer, Grant)
    assert answer.permit == Amount(2000, 3 * GIB)


def test_an_observed_vm_counts_with_its_observed_size_alone() -> None:
    seen = machine("seen", use=resources(4000, 4), observed=resources(1000, 2), mode=Mode.OBSERVE)
    scheduler = node_scheduler(whole(seen, machine("a")), cpu=4000, gib=4)
    answer = ask(scheduler, "a", 4000, 4)
    assert isinstance(answer, Grant)
    assert answer.permit == Amount(3000, 2 * GIB)


def test_vms_of_one_node_may_have_slots_of_different_sizes() -> None:
    small = machine("small", slot_bytes=GIB // 4)
    scheduler = node_scheduler(whole(small, machine("a")), gib=4)
    ask(scheduler, "small", 1000, 1)
    answer = ask(scheduler, "a", 1000, 4)
    assert isinstance(answer, Grant)
    assert answer.permit.mem == 3 * GIB


def test_the_memory_of_a_vm_that_vanished_is_given_out_again() -> None:
    listed, gone = whole(machine("a"), machine("b")), changed(removed=["ns/b"])
    before, after = node_scheduler(listed, cpu=4000), node_scheduler(listed, gone, cpu=4000)
    granted = [ask(scheduler, "a", 4000, 1) for scheduler in (before, after)]
    assert [answer.permit.cpu for answer in granted if isinstance(answer, Grant)] == [1000, 4000]


def test_a_whole_list_without_a_vm_removes_it() -> None:
    scheduler = node_scheduler(whole(machine("a"), machine("b")), whole(machine("a")))
    assert scheduler.vm_count == 1
    assert isinstance(ask(scheduler, "b", 1000, 1), Refusal)


def test_a_vm_that_changes_its_node_is_counted_there() -> None:
    scheduler = node_scheduler(whole(machine("a")), changed(machine("a", node="n2")))
    answer = ask(scheduler, "a", 1000, 1)
    assert isinstance(answer, Refusal)
    assert answer.kind is RefusalKind.UNKNOWN_NODE
    names = [node["name"] for node in scheduler.dump()["nodes"]]  # type: ignore[attr-defined]
    assert names == ["n1", "n2"]


def test_the_dump_is_json_and_shows_what_is_left_and_wanted() -> None:
    scheduler = node_scheduler(whole(machine("a"), machine("b", node="n2")), cpu=3000)
    ask(scheduler, "a", 4000, 2)
    ask(scheduler, "b", 1000, 1)
    dump = json.loads(json.dumps(scheduler.dump()))
    node = dump["nodes"][0]
    assert node["capacity"]["milliCpu"] == 3000
    assert node["left"] == {"milliCpu": 0, "bytes": 8 * GIB}
    assert node["pressure"] == {"milliCpu": 1000, "bytes": 0}
    assert node["pods"][0]["pod"] == "ns/a"
    assert node["pods"][0]["granted"] == {"milliCpu": 3000, "bytes": 2 * GIB}
    assert dump["grants"] == 1
    assert dump["refusals"]["unknown node"] == 1
