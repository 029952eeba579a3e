"""Checks side by side: one that hangs, fails or breaks is no matter to the others."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from app.errors import PeerUnreachable
from app.services.agent_facts import AgentRow
from app.services.checkup import Check, Finding, Verdict, ok, run_checks
from app.services.clock_checks import agents_clock_check, judge_clock
from app.services.plain_threads import PlainClock, PlainThreads

STEP = "do this"


def run(*checks: Check, limit_s: float = 30.0) -> list[Finding]:
    return run_checks(checks, PlainClock(), PlainThreads(), limit_s=limit_s)


def test_findings_come_in_the_order_of_the_checks() -> None:
    first_may_end = threading.Event()

    def slow() -> Iterator[Finding]:
        first_may_end.wait(30)
        yield ok("slow", "1")

    def quick() -> Iterator[Finding]:
        yield ok("quick", "2")
        first_may_end.set()

    assert [each.text for each in run(Check("slow", slow, ""), Check("quick", quick, ""))] == ["1", "2"]


def test_what_can_not_be_found_out_is_a_problem_and_the_others_are_made() -> None:
    def unreachable() -> Iterator[Finding]:
        yield ok("peer", "so far")
        raise PeerUnreachable("peer", "no connection")

    def broken() -> Iterator[Finding]:
        raise ZeroDivisionError("a bug")

    found = run(
        Check("peer", unreachable, STEP),
        Check("bug", broken, STEP),
        Check("well", lambda: [ok("well", "it is")], STEP),
    )
    assert [(each.about, each.verdict) for each in found] == [
        ("peer", Verdict.OK),
        ("peer", Verdict.PROBLEM),
        ("bug", Verdict.PROBLEM),
        ("well", Verdict.OK),
    ]
    assert (found[1].text, found[1].next_step) == ("peer: no connection", STEP)
    assert "bug" in found[2].next_step


def test_one_that_hangs_is_given_up_with_what_it_has_found() -> None:
    never = threading.Event()

    def hangs() -> Iterator[Finding]:
        yield ok("hangs", "so far")
        never.wait(60)

    found = run(Check("hangs", hangs, STEP), Check("well", lambda: [ok("well", "it is")], STEP), limit_s=0.3)
    never.set()
    assert [each.text for each in found] == ["so far", "no answer within 0.3 s", "it is"]
    assert found[1].next_step == STEP


@pytest.mark.parametrize(
    ("offset_ms", "verdict", "told"),
    [
        (900, Verdict.OK, "agrees"),
        (-1_400, Verdict.OK, "agrees"),
        (2_000, Verdict.WARNING, "2.0 s ahead of ours"),
        (-60_000, Verdict.PROBLEM, "60.0 s behind ours"),
    ],
)
def test_a_clock_is_judged_beyond_what_the_measurement_leaves_in_doubt(
    offset_ms: int, verdict: Verdict, told: str
) -> None:
    found = judge_clock("clock", offset_ms, doubt_ms=500, whose="its")
    assert found.verdict is verdict
    assert told in found.text


def agent(name: str, offset_ms: int | None) -> AgentRow:
    return AgentRow(
        agent_id=name,
        kind="worker",
        name=name,
        identity=name,
        address=None,
        started_ms=None,
        version="",
        pid=None,
        buckets=(),
        vms=0,
        counters={},
        problems=(),
        age_ms=0,
        clock_offset_ms=offset_ms,
    )


def test_the_process_whose_clock_is_off_is_named() -> None:
    (found,) = run(agents_clock_check(lambda: [agent("w1", 3), agent("w2", -30_000), agent("old", None)]))
    assert found.verdict is Verdict.PROBLEM
    assert found.text == "worker w2's clock is 30.0 s behind Redis'"


def test_processes_whose_clocks_agree_are_counted() -> None:
    (found,) = run(agents_clock_check(lambda: [agent("w1", 3), agent("w2", -30)]))
    assert (found.verdict, found.text) == (Verdict.OK, "those of 2 processes agree with Redis'")
