"""Evidence of short runs, good as they stand; tests forge one thing in them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.chaos.evidence import (
    Effect,
    Evidence,
    FaultDone,
    LeaseChange,
    Limits,
    Poll,
    Pushed,
    Size,
    StatLine,
    Vm,
)

A, B = "worker1_127.0.0.1/id-a", "worker2_127.0.0.1/id-b"
"""Two holders: A has the bucket first, is killed at 21 s, then B has it."""

BUCKET, KEY, SLOT = "bucket-1", "sim/a", 2**30
TOKEN_A, TOKEN_B = 100, 200
BEGIN, CRASH, TAKEN, END = 0.0, 21.0, 26.0, 60.0
LIMITS = Limits(lease_s=6.0, period_s=5.0, buckets=1)
FIRST = Size(1000, 4 * SLOT)


def an_effect(at: float, receiver: str = "platform", what: str = "asked", **changes: Any) -> Effect:
    """An effect of whoever has the bucket at that time, unless said otherwise."""
    is_first = at < TAKEN
    effect = Effect(
        at=at,
        receiver=receiver,
        what=what,
        vm=KEY,
        bucket=BUCKET,
        holder=A if is_first else B,
        token=None if receiver == "monitor" else TOKEN_A if is_first else TOKEN_B,
        is_applied=True,
        size=FIRST,
        line={"mono": at, "effect": what},
    )
    return replace(effect, **changes)


def a_stat(fate: str, at: float = 10.0, timestamp: int = 1, holder: str = A) -> StatLine:
    """A line of the workers' journal of stats, under the holder's token."""
    token = TOKEN_A if holder == A else TOKEN_B
    line = {"fate": fate, "timestamp": timestamp, "token": token if fate == "accepted" else None}
    return StatLine(at, fate, holder, KEY, timestamp, line)


def a_push(at: float = 10.0, timestamp: int = 1, status: int = 202) -> Pushed:
    """A stat that was sent to the first worker."""
    return Pushed(at, KEY, timestamp, "worker1", status)


def polls(*gaps: tuple[float, float], every_s: float = 5.0) -> tuple[Poll, ...]:
    """Polls all through the run, but for the gaps."""
    times = [number * every_s for number in range(int(END / every_s))]
    return tuple(
        Poll(at, KEY, A if at < TAKEN else B)
        for at in times
        if not any(begin < at < end for begin, end in gaps)
    )


def a_run(**changes: Any) -> Evidence:
    """A good run of a minute with one bucket, one VM, and one SIGKILL."""
    up, down = Size(2000, 4 * SLOT), Size(1000, 2 * SLOT)
    evidence = Evidence(
        limits=LIMITS,
        begin=BEGIN,
        end=END,
        vms={KEY: Vm(KEY, BUCKET, SLOT, FIRST)},
        effects=(
            an_effect(1.0, "monitor", "connected", size=None),
            an_effect(2.0, "scheduler", "granted", size=up),
            an_effect(3.0, size=up),
            an_effect(5.0, "monitor", "told", size=up),
            an_effect(27.0, "monitor", "connected", size=None),
            an_effect(28.0, "scheduler", "granted", size=up),
            an_effect(29.0, holder=A, token=TOKEN_A, is_applied=False),
            an_effect(30.0, "monitor", "approved", size=down),
            an_effect(31.0, size=down),
            an_effect(32.0, "scheduler", "granted", size=down),
        ),
        polls=polls((CRASH, TAKEN + 3)),
        leases=(LeaseChange(-5.0, BUCKET, A, TOKEN_A), LeaseChange(TAKEN, BUCKET, B, TOKEN_B)),
        faults=(FaultDone(CRASH, CRASH, "kill", "worker1", "kill worker1"),),
    )
    return replace(evidence, **changes)
