"""Which buckets a tick brings a poll to."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from app.cluster.ring import bucket_names
from app.ports.store import BucketName, FencingToken, Holder, LeaseRow, LeaseView
from app.services.turns import take_turns
from tests.fakes.clock import FakeClock
from tests.fakes.ticks import MemoryTicks

ONE, TWO = (BucketName(name) for name in bucket_names(2))
ANN = Holder("ann_10.0.0.1", "ann")


@dataclass
class Seen:
    """Leases as a worker has last seen them: the first bucket is Ann's, the second nobody's."""

    problem: str | None = None
    is_begun: bool = True

    def view(self) -> LeaseView | None:
        rows = {ONE: LeaseRow(ONE, ANN, FencingToken(7), 9_000), TWO: LeaseRow(TWO, None, FencingToken(6), 0)}
        return LeaseView(rows, ("ann",), frozenset(), 0) if self.is_begun else None


def test_a_bucket_that_nobody_holds_gets_no_poll() -> None:
    assert [bucket for bucket, _ in take_turns(MemoryTicks(FakeClock()), Seen(), total=2, period_s=5)] == [
        ONE
    ]


@pytest.mark.parametrize("seen", [Seen(problem="the fleet has 4 buckets"), Seen(is_begun=False)])
def test_a_worker_whose_leases_stand_still_sends_no_poll_and_takes_no_turn(seen: Seen) -> None:
    ticks = MemoryTicks(FakeClock())
    assert not take_turns(ticks, seen, total=2, period_s=5)
    assert ticks.last_turns(2) == [None, None]
