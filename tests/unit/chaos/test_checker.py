"""The checker of the chaos test: it accepts good journals, and rejects those that were forged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.chaos.checker import NOTHING_HAPPENED, check
from tests.chaos.evidence import Counters, Evidence, FaultDone, Gauge, LeaseChange, Life, Size
from tests.chaos.rules_growth import ALLOWED, GREW
from tests.chaos.rules_liveness import LEFT_OUT, NO_NEW_LEASE, NOT_POLLED
from tests.chaos.rules_order import INCOMPLETE, INTERLEAVED, NO_HOLDER, OLD_TOKEN, WRONG_BUCKET
from tests.chaos.rules_sizes import ABOVE_PERMIT, BELOW_APPROVED
from tests.chaos.rules_stats import LOST, MISCOUNTED, OLD_OWNER, TWICE
from tests.chaos.spans import Span
from tests.chaos_builders import (
    BUCKET,
    CRASH,
    END,
    SLOT,
    TAKEN,
    TOKEN_A,
    TOKEN_B,
    A,
    B,
    a_push,
    a_run,
    a_stat,
    an_effect,
    polls,
)


def with_effects(*more: Any) -> Evidence:
    run = a_run()
    return replace(run, effects=(*run.effects, *more))


def with_stats(*lines: Any, pushed: Any = (), **changes: Any) -> Evidence:
    return a_run(pushed=pushed or (a_push(),), stats=lines, **changes)


def gauges(first: float, last: float, what: str = "rss") -> tuple[Gauge, ...]:
    """One process, early and late in a run of 200 s; all else stays as it is."""
    values = dict.fromkeys(ALLOWED, (1.0, 1.0)) | {what: (first, last)}
    return tuple(
        Gauge(at, "redis", name, early if at < 100 else late)
        for name, (early, late) in values.items()
        for at in range(0, 201, 10)
    )


def counters(**changes: int) -> tuple[Counters, ...]:
    names = ("received", "accepted", "forwarded", "late", "dropped", "returned", "in_hand", "taken")
    values = {f"stats_{name}": 0 for name in names} | {f"stats_{name}": n for name, n in changes.items()}
    return (Counters(10.0, A, values),)


KILLED = (Life("worker1", -9.0, CRASH, "killed"),)
TERMINATED = (Life("worker1", -9.0, CRASH, "terminated"),)
UNSEEN = Span(40.5, 45.0, "Redis was down")
OUTAGE = Span(22.0, 35.0, "Redis was down")

GOOD: dict[str, Callable[[], Evidence]] = {
    "a run with a crash": a_run,
    "an old token that is refused": lambda: with_effects(
        an_effect(40.0, holder=A, token=TOKEN_A, is_applied=False)
    ),
    "the same holder again with a newer token": lambda: with_effects(
        an_effect(50.0, "scheduler", "granted", holder=A, token=300)
    ),
    "a poll just in time after a crash": lambda: a_run(polls=polls((CRASH - 1, CRASH + 18.9), every_s=1)),
    "a gap in which Redis was down, and the time to come back": lambda: a_run(
        polls=polls((19.0, 55.0)), left_out=(OUTAGE,), outages=(OUTAGE,)
    ),
    "a monitor spoken to under a lease taken just before Redis went": lambda: replace(
        with_effects(an_effect(41.0, "monitor", "told", holder=A)),
        left_out=(UNSEEN,),
        outages=(UNSEEN,),
    ),
    "a connection begun under the lease that a slow monitor takes after its end": lambda: with_effects(
        an_effect(TAKEN + 0.5, "monitor", "connected", size=None, holder=A)
    ),
    "a stat accepted once": lambda: with_stats(a_stat("taken"), a_stat("accepted")),
    "a stat accepted, and late from the next owner": lambda: with_stats(
        a_stat("taken"), a_stat("forwarded"), a_stat("accepted"), a_stat("late", holder=B)
    ),
    "a stat of the earlier owner whose line came late": lambda: with_stats(
        a_stat("taken"),
        a_stat("taken", timestamp=2),
        a_stat("accepted", timestamp=2, holder=B),
        a_stat("accepted"),
    ),
    "a stat that is late": lambda: with_stats(a_stat("taken"), a_stat("late")),
    "a stat that is dropped": lambda: with_stats(a_stat("taken"), a_stat("dropped")),
    "a stat in the hands of a killed process": lambda: with_stats(a_stat("taken"), lives=KILLED),
    "a stat that waits in Redis at the end": lambda: with_stats(
        a_stat("taken"), a_stat("forwarded"), still_queued=frozenset({("sim/a", 1)})
    ),
    "a stat that nobody took": lambda: with_stats(pushed=(a_push(status=429), a_push(status=0))),
    "counters that add up": lambda: with_stats(
        a_stat("accepted"), counters=counters(taken=3, accepted=1, in_hand=2)
    ),
    "memory that moves": lambda: a_run(end=200.0, polls=polls_to(200), gauges=gauges(2**26, 2**26 + 2**20)),
    "growth in a run too short to tell": lambda: a_run(gauges=gauges(1, 1e12)),
}


def polls_to(end: float) -> Any:
    """Polls all through a longer run."""
    return tuple(replace(polls()[0], at=float(at)) for at in range(0, int(end), 5))


BAD: dict[str, tuple[str, Callable[[], Evidence]]] = {
    "an old token applied after a newer one": (
        OLD_TOKEN,
        lambda: with_effects(an_effect(40.0, holder=A, token=TOKEN_A, size=Size(1000, 2 * SLOT))),
    ),
    "an old token applied after a newer one was only refused there": (
        OLD_TOKEN,
        lambda: with_effects(
            an_effect(40.0, token=300, is_applied=False),
            an_effect(41.0, token=TOKEN_B, size=Size(1000, 2 * SLOT)),
        ),
    ),
    "a late effect at a receiver that has not seen the newer token": (
        INTERLEAVED,
        lambda: a_run(
            effects=(
                an_effect(1.0, "monitor", "connected", size=None),
                an_effect(28.0, "scheduler", "granted"),
                an_effect(29.0, holder=A, token=TOKEN_A),
            )
        ),
    ),
    "one token in two hands": (INTERLEAVED, lambda: with_effects(an_effect(40.0, holder=A, token=TOKEN_B))),
    "an earlier holder that speaks to a monitor": (
        INTERLEAVED,
        lambda: with_effects(an_effect(45.0, "monitor", "told", holder=A)),
    ),
    "a connection of the earlier holder that ends the next one's": (
        INTERLEAVED,
        lambda: with_effects(an_effect(28.0, "monitor", "connected", size=None, holder=A)),
    ),
    "a connection of the earlier holder long after its lease": (
        INTERLEAVED,
        lambda: a_run(
            effects=(
                *a_run().effects[:4],
                an_effect(TAKEN + 5.5, "monitor", "connected", size=None, holder=A),
            )
        ),
    ),
    "two that speak to a monitor while Redis is down": (
        INTERLEAVED,
        lambda: replace(
            with_effects(
                an_effect(41.0, "monitor", "told", holder=A), an_effect(42.0, "monitor", "told", holder=B)
            ),
            left_out=(UNSEEN,),
            outages=(UNSEEN,),
        ),
    ),
    "an effect of nobody": (NO_HOLDER, lambda: with_effects(an_effect(40.0, holder=""))),
    "an effect under another bucket's token": (
        WRONG_BUCKET,
        lambda: with_effects(an_effect(40.0, bucket="bucket-2")),
    ),
    "a journal with lines missing": (INCOMPLETE, lambda: a_run(gaps=("fleet: lines 3 to 5 are missing",))),
    "a VM that is polled too late after a crash": (
        NOT_POLLED,
        lambda: a_run(polls=polls((CRASH - 1, CRASH + 19.1), every_s=1)),
    ),
    "a VM that is never polled again": (NOT_POLLED, lambda: a_run(polls=polls((19.0, END)))),
    "a VM that is never polled at all": (NOT_POLLED, lambda: a_run(polls=())),
    "a VM whose owner was never hurt": (NOT_POLLED, lambda: a_run(faults=(), polls=polls((19.0, 39.9)))),
    "a VM that waits although another bucket's owner was hurt": (
        NOT_POLLED,
        lambda: a_run(
            polls=polls((34.0, 59.0)), faults=(FaultDone(45.0, 45.0, "kill", "worker1", "kill worker1"),)
        ),
    ),
    "a gap longer than an outage and the time to come back": (
        NOT_POLLED,
        lambda: a_run(polls=polls((4.0, END)), left_out=(Span(9.0, 20.0),), outages=(Span(9.0, 20.0),)),
    ),
    "a lease that nobody takes": (
        NO_NEW_LEASE,
        lambda: a_run(leases=(LeaseChange(-5.0, BUCKET, A, TOKEN_A), LeaseChange(29.0, BUCKET, B, TOKEN_B))),
    ),
    "a run of which most is left out": (LEFT_OUT, lambda: a_run(left_out=(Span(0.0, 31.0),))),
    "a size below what the monitor approved": (
        BELOW_APPROVED,
        lambda: with_effects(an_effect(40.0, size=Size(1000, SLOT))),
    ),
    "a size above the permit": (
        ABOVE_PERMIT,
        lambda: with_effects(an_effect(40.0, size=Size(1250, 2 * SLOT))),
    ),
    "a size that stays above its permit": (
        ABOVE_PERMIT,
        lambda: with_effects(
            an_effect(33.0, "scheduler", "granted", size=Size(500, 2 * SLOT)),
            an_effect(55.0, "scheduler", "granted", size=Size(750, 2 * SLOT)),
        ),
    ),
    "a stat accepted twice": (
        TWICE,
        lambda: with_stats(a_stat("taken"), a_stat("accepted"), a_stat("accepted", holder=B)),
    ),
    "an earlier owner that accepts after a newer one": (
        OLD_OWNER,
        lambda: with_stats(
            a_stat("taken"),
            a_stat("taken", timestamp=2),
            a_stat("accepted", holder=B),
            a_stat("accepted", timestamp=2),
        ),
    ),
    "stats accepted out of order": (
        OLD_OWNER,
        lambda: with_stats(
            a_stat("taken"), a_stat("taken", timestamp=2), a_stat("accepted", timestamp=2), a_stat("accepted")
        ),
    ),
    "stats accepted by two under one token": (
        OLD_OWNER,
        lambda: with_stats(
            a_stat("taken"),
            a_stat("taken", timestamp=2),
            a_stat("accepted"),
            replace(a_stat("accepted", timestamp=2), holder=B),
        ),
    ),
    "a stat accepted under no token": (
        OLD_OWNER,
        lambda: with_stats(a_stat("taken"), replace(a_stat("accepted"), line={"token": None})),
    ),
    "a stat that is gone": (LOST, lambda: with_stats(a_stat("taken"))),
    "a stat that is gone from Redis": (
        LOST,
        lambda: with_stats(a_stat("taken"), a_stat("forwarded"), lives=KILLED),
    ),
    "a stat lost in an orderly end": (LOST, lambda: with_stats(a_stat("taken"), lives=TERMINATED)),
    "a stat taken by a later process than the killed one": (
        LOST,
        lambda: with_stats(a_stat("taken", at=TAKEN), lives=KILLED),
    ),
    "a stat answered with 202 of which no journal knows": (LOST, lambda: with_stats(lives=KILLED)),
    "a stat accepted that nobody took": (
        LOST,
        lambda: with_stats(a_stat("accepted", timestamp=9), pushed=(a_push(status=429),)),
    ),
    "counters that don't add up": (
        MISCOUNTED,
        lambda: with_stats(a_stat("accepted"), counters=counters(taken=3, accepted=1, in_hand=1)),
    ),
    "memory that grows": (
        GREW,
        lambda: a_run(end=200.0, polls=polls_to(200), gauges=gauges(2**26, 2**27)),
    ),
    "connections that nobody has counted": (
        GREW,
        lambda: a_run(
            end=200.0,
            polls=polls_to(200),
            gauges=tuple(each for each in gauges(1, 1) if each.what != "connections"),
        ),
    ),
    "keys that grow": (
        GREW,
        lambda: a_run(end=200.0, polls=polls_to(200), gauges=gauges(100, 300, "keys")),
    ),
    "a run in which no size was asked for": (
        NOTHING_HAPPENED,
        lambda: a_run(effects=(an_effect(1.0, "scheduler", "granted"),)),
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_good_journals_are_accepted(name: str) -> None:
    assert check(GOOD[name]()).violations == []


@pytest.mark.parametrize("name", BAD)
def test_forged_journals_are_rejected_by_the_rule_that_was_broken(name: str) -> None:
    rule, forge = BAD[name]
    assert rule in {violation.rule for violation in check(forge()).violations}


def test_a_violation_shows_the_lines_that_prove_it() -> None:
    forged = an_effect(40.0, holder=A, token=TOKEN_A, size=Size(1000, 2 * SLOT))
    found = check(with_effects(forged)).violations
    (proof,) = [violation for violation in found if violation.rule == OLD_TOKEN]
    assert [line["mono"] for line in proof.lines] == [31.0, 40.0]
    assert str(TOKEN_A) in proof.text
    assert str(TOKEN_B) in proof.text


def test_figures_tell_what_was_done_and_how_long_it_took() -> None:
    figures = check(with_stats(a_stat("taken"), a_stat("accepted"))).figures
    assert figures["effects, platform: asked"] == "2"
    assert figures["effects, platform: asked, refused"] == "1"
    assert figures["longest time from SIGKILL to the new lease"] == "5.0 s"
    assert figures["longest time from a crash to the next poll"] == "9.0 s"
    assert figures["stats, accepted"] == "1"
    assert figures["left out"] == "0.0% of 60 s"
