"""Ownership interrupted at every call, in every way: acquire, renew, hand-over, commit, effects.

Three workers come, share, hand over and leave; the story is told once for each of its calls and each fault.
"""

from __future__ import annotations

import pytest

from app.cluster.lease import LeaseTimes
from tests.model.interrupted_redis import MemoryRedis
from tests.model.interrupted_world import Fault, World

TIMES = LeaseTimes(duration_s=4, renew_every_s=1, give_up_after_s=2.5)


def tell(world: World) -> None:
    """One comes and takes all, two others come and get their shares, one of them leaves."""
    world.start("ann")
    world.pass_time(1.0)
    bob = world.start("bob")
    world.start("cid")
    world.pass_time(3.5)
    if not bob.is_dead:
        bob.leave()
    world.pass_time(1.0)


def calls_of_the_story() -> list[str]:
    world = World(MemoryRedis(TIMES), TIMES)
    tell(world)
    world.check_all_is_well()
    return world.calls


CALLS = calls_of_the_story()

FAULTS = [
    *(Fault(when, "nothing", is_answered=False) for when in ("before", "after")),
    *(Fault(when, "late", seconds) for when in ("before", "after") for seconds in (0.7, 3.0, 4.6)),
    *(Fault(when, "late", 3.0, is_answered=False) for when in ("before", "after")),
    *(Fault(when, "stopped", seconds) for when in ("before", "after") for seconds in (3.0, 6.0)),
    *(Fault(when, "killed") for when in ("before", "after")),
    *(Fault(when, "late, then cut off", seconds) for when in ("before", "after") for seconds in (0.0, 2.2)),
    Fault("before", "stopped while keys are lost", 8.5),
    *(
        Fault(when, what, seconds, is_answered)
        for what, seconds in (("loses keys", 0), ("restarts", 0), ("fails over", 0.3), ("fails over", 1.5))
        for when, is_answered in (("before", True), ("after", True), ("after", False))
    ),
]


def test_the_story_holds_every_kind_of_call() -> None:
    kinds = {call.partition(" ")[2] for call in CALLS}
    assert kinds == {
        "look",
        "renew",
        "acquire",
        "raise fence",
        "load",
        "commit",
        "effect",
        "release",
        "leave",
    }


def test_undisturbed_no_bucket_waits_longer_than_a_round() -> None:
    world = World(MemoryRedis(TIMES), TIMES)
    tell(world)
    assert 0 < world.longest_gap_s <= 1.0
    assert world.late_sends == 0


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_one_owner_growing_tokens_and_no_lost_write_whichever_call_is_interrupted(fault: Fault) -> None:
    for at, call in enumerate(CALLS):
        world = World(MemoryRedis(TIMES), TIMES, fault, at)
        try:
            tell(world)
            world.recover()
        except AssertionError as err:
            raise AssertionError(f"{fault} at call {at}, {call}: {err}") from err
