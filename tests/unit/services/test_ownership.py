"""The ownership service against leases in memory and a clock that is told the time."""

from __future__ import annotations

import pytest

from app.cluster.lease import LeaseTimes
from app.cluster.ring import bucket_names
from app.errors import ConfigurationError, OwnershipLost, StoreUnavailable
from app.ports.store import BucketName, FencingToken, Holder
from app.services.ownership import LOOK_EVERY_S
from tests.fakes.clock import FakeClock
from tests.fakes.leases import MemoryLeases
from tests.fakes.owners import Owner

TIMES = LeaseTimes(duration_s=15, renew_every_s=2, give_up_after_s=10)
TOTAL = 8
NAMES = {BucketName(name) for name in bucket_names(TOTAL)}


class Fleet:
    """Workers on one store; the epoch is old at the start."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = MemoryLeases(self.clock, bucket_names(TOTAL), duration_s=TIMES.duration_s)
        opener = self.worker("opener")
        self.store.round(opener.holder, {})
        self.store.leave(opener.holder)
        self.clock.advance(TIMES.duration_s)
        self.store.calls.clear()

    def worker(self, name: str, total: int = TOTAL) -> Owner:
        return Owner(name, self.store, self.clock, total, TIMES)

    def run(self, *workers: Owner, seconds: float) -> None:
        for _ in range(round(seconds / LOOK_EVERY_S)):
            for worker in workers:
                worker.round()
            self.clock.advance(LOOK_EVERY_S)


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


def test_a_lone_worker_takes_everything_at_its_first_round(fleet: Fleet) -> None:
    ann = fleet.worker("ann")
    ann.round()
    assert ann.ownership.held() == NAMES
    assert set(ann.begun) == NAMES
    assert ann.begun[next(iter(NAMES))] == ann.ownership.guard(next(iter(NAMES))).token


def test_a_quiet_round_is_one_round_trip_and_renewals_keep_their_pace(fleet: Fleet) -> None:
    ann = fleet.worker("ann")
    ann.round()
    fleet.store.calls.clear()
    renewed = []
    fleet.store.after_call = lambda name: renewed.append(fleet.store.renewed_last)
    fleet.run(ann, seconds=15)
    assert fleet.store.calls == ["round"] * 30
    assert renewed.count(NAMES) == 8  # at 0, 2, … 14 s
    assert renewed.count(frozenset()) == 22


def test_two_workers_share_fairly_and_hand_over_one_at_a_time(fleet: Fleet) -> None:
    ann, bob = fleet.worker("ann"), fleet.worker("bob")
    fleet.run(ann, seconds=1)
    held_while_releasing = []

    def note(bucket: BucketName) -> None:
        assert ann.may_work_on(bucket)
        assert bucket not in ann.ownership.held()
        held_while_releasing.append(len(ann.ownership.held()))

    ann.while_releasing = note
    fleet.run(ann, bob, seconds=10)
    assert len(ann.ownership.held()) == len(bob.ownership.held()) == 4
    assert ann.ownership.held() | bob.ownership.held() == NAMES
    assert held_while_releasing == [7, 6, 5, 4]
    assert ("lost", next(iter(bob.begun))) not in ann.notes


def test_shares_settle_and_nothing_is_handed_back_and_forth(fleet: Fleet) -> None:
    workers = [fleet.worker(name) for name in ("ann", "bob", "cyd")]
    fleet.run(*workers, seconds=20)
    for worker in workers:
        worker.notes.clear()
    fleet.run(*workers, seconds=20)
    assert sorted(len(worker.ownership.held()) for worker in workers) == [2, 3, 3]
    assert [worker.notes for worker in workers] == [[], [], []]


def test_the_buckets_of_a_killed_worker_are_taken_over_when_its_leases_expire(fleet: Fleet) -> None:
    ann, bob = fleet.worker("ann"), fleet.worker("bob")
    fleet.run(ann, bob, seconds=10)
    last_tokens = dict(ann.begun)
    fleet.run(bob, seconds=12)
    assert len(bob.ownership.held()) == 4
    fleet.run(bob, seconds=5)
    assert bob.ownership.held() == NAMES
    assert all(bob.begun[bucket] > token for bucket, token in last_tokens.items())


def test_a_clean_shutdown_releases_at_once(fleet: Fleet) -> None:
    ann, bob = fleet.worker("ann"), fleet.worker("bob")
    fleet.run(ann, bob, seconds=10)
    mine = set(ann.begun)
    ann.ownership.release_all()
    ann.ownership.release_all()
    assert {bucket for what, bucket in ann.notes if what == "releasing"} >= mine
    assert ann.ownership.held() == frozenset()
    bob.round()
    assert bob.ownership.held() == NAMES


def test_what_is_still_being_saved_at_shutdown_stays_renewed_and_nothing_is_taken(fleet: Fleet) -> None:
    ann, bob = fleet.worker("ann"), fleet.worker("bob")
    ann.round()
    saved = []

    def save_slowly(bucket: BucketName) -> None:
        for _ in range(10):
            fleet.clock.advance(0.5)
            ann.ownership.step()
            bob.round()
        assert ann.may_work_on(bucket)
        saved.append(bucket)

    ann.while_releasing = save_slowly
    ann.ownership.release_all()
    assert set(saved) == NAMES
    bob.round()
    assert bob.ownership.held() == NAMES
    assert bob.ownership.view().live_agents == ("bob",)


def test_leases_run_out_by_the_monotonic_clock_while_redis_is_away(fleet: Fleet) -> None:
    ann = fleet.worker("ann")
    ann.round()
    fleet.store.is_away = True
    fleet.run(ann, seconds=9)
    assert ann.ownership.held() == NAMES
    assert ann.ownership.problem == "Redis gave no answer: is away"
    fleet.run(ann, seconds=2)
    assert ann.ownership.held() == frozenset()
    assert {bucket for what, bucket in ann.notes if what == "lost"} == NAMES
    fleet.store.is_away = False
    ann.round()
    assert ann.ownership.problem is None
    assert ann.ownership.held() == NAMES


def test_leases_run_out_while_a_round_hangs(fleet: Fleet) -> None:
    ann = fleet.worker("ann")
    ann.round()
    guard = ann.ownership.guard(next(iter(NAMES)))

    def hang(name: str) -> None:
        fleet.clock.advance(10)
        with pytest.raises(OwnershipLost):
            guard.check()
        ann.ownership.expire_overdue()
        assert ann.begun == {}

    fleet.clock.advance(2)
    fleet.store.before_call = hang
    ann.ownership.step()
    with pytest.raises(OwnershipLost):
        guard.check()


def test_a_lease_is_counted_from_before_its_renewal_was_sent(fleet: Fleet) -> None:
    ann = fleet.worker("ann")
    ann.round()
    fleet.clock.advance(2)
    fleet.store.before_call = lambda name: fleet.clock.advance(3)
    ann.ownership.step()
    assert ann.ownership.guard(next(iter(NAMES))).limit_s(0) == pytest.approx(15 - 0.5 - 3)


def test_a_guard_limits_calls_and_refuses_those_that_could_outlast_the_lease(fleet: Fleet) -> None:
    ann = fleet.worker("ann")
    ann.round()
    guard = ann.ownership.guard(next(iter(NAMES)))
    assert guard.limit_s(2.0) == 2.0
    assert guard.limit_s(60.0) == guard.limit_s(0) == pytest.approx(14.5)
    fleet.clock.advance(9.5)
    assert guard.limit_s(60.0) == pytest.approx(5.0)
    fleet.clock.advance(1)
    with pytest.raises(OwnershipLost):
        guard.limit_s(60.0)


def test_a_process_that_was_stopped_begins_nothing_when_it_wakes(fleet: Fleet) -> None:
    ann, bob = fleet.worker("ann"), fleet.worker("bob")
    ann.round()
    guard = ann.ownership.guard(next(iter(NAMES)))
    fleet.clock.advance(60)
    bob.round()
    with pytest.raises(OwnershipLost):
        guard.check()
    assert ann.ownership.held() == frozenset()


def test_a_guard_of_an_earlier_lease_stays_lost_when_the_bucket_is_taken_again(fleet: Fleet) -> None:
    ann = fleet.worker("ann")
    ann.round()
    bucket = next(iter(NAMES))
    guard = ann.ownership.guard(bucket)
    ann.ownership.drop(bucket)
    assert ann.notes[-1] == ("lost", bucket)
    with pytest.raises(OwnershipLost):
        ann.ownership.guard(bucket)
    ann.round()
    assert ann.ownership.guard(bucket).token > guard.token
    with pytest.raises(OwnershipLost):
        guard.check()


def test_a_bucket_that_cannot_be_begun_is_let_go_and_tried_again(fleet: Fleet) -> None:
    ann = fleet.worker("ann")
    failures = [StoreUnavailable("redis", "is away")]

    def fail_once(bucket: BucketName) -> None:
        if failures:
            raise failures.pop()

    ann.while_acquiring = fail_once
    ann.round()
    assert len(ann.ownership.held()) == TOTAL - 1
    ann.round()
    assert ann.ownership.held() == NAMES


def test_our_own_bug_in_a_callback_does_not_leave_a_bucket_held_and_idle(fleet: Fleet) -> None:
    ann = fleet.worker("ann")

    def fail(bucket: BucketName) -> None:
        raise ZeroDivisionError

    ann.while_acquiring = fail
    ann.ownership.step()
    with pytest.raises(ZeroDivisionError):
        ann.ownership.settle()
    assert len(ann.ownership.held()) == TOTAL - 1


def test_a_lease_that_goes_while_it_is_begun_ends_with_lost(fleet: Fleet) -> None:
    ann = fleet.worker("ann")
    ann.while_acquiring = ann.ownership.drop
    ann.round()
    assert ann.begun == {}
    assert ann.ownership.held() == frozenset()
    assert [what for what, _ in ann.notes] == ["acquired", "lost"] * TOTAL


def test_a_lease_that_goes_during_its_hand_over_is_not_released_for_the_new_owner(fleet: Fleet) -> None:
    ann, bob = fleet.worker("ann"), fleet.worker("bob")
    ann.round()

    def sleep_through(bucket: BucketName) -> None:
        fleet.clock.advance(30)
        bob.round()
        ann.ownership.expire_overdue()

    ann.while_releasing = sleep_through
    while all(what != "releasing" for what, _ in ann.notes):
        bob.ownership.step()
        fleet.clock.advance(LOOK_EVERY_S)
        ann.round()
    assert ann.begun == {}
    fleet.run(bob, seconds=2)
    assert bob.ownership.held() == NAMES


def test_an_answer_that_was_lost_leaves_no_bucket_without_owner(fleet: Fleet) -> None:
    ann = fleet.worker("ann")

    def lose_answer(name: str) -> None:
        if name == "acquire":
            raise StoreUnavailable("redis", "timed out")

    fleet.store.after_call = lose_answer
    ann.round()
    assert ann.ownership.held() == frozenset()
    fleet.store.after_call = lambda name: None
    ann.round()
    assert ann.ownership.held() == NAMES


def test_a_bucket_taken_from_us_is_lost_at_the_next_renewal(fleet: Fleet) -> None:
    ann, bob = fleet.worker("ann"), fleet.worker("bob")
    ann.round()
    bucket = next(iter(NAMES))
    fleet.store.release(ann.holder, {bucket: ann.begun[bucket]})
    fleet.store.acquire(bob.holder, [bucket], FencingToken(0))
    fleet.run(ann, seconds=2.5)
    assert ("lost", bucket) in ann.notes
    assert bucket not in ann.ownership.held()


def test_holders_keep_their_buckets_when_redis_loses_everything(fleet: Fleet) -> None:
    ann, bob = fleet.worker("ann"), fleet.worker("bob")
    fleet.run(ann, bob, seconds=10)
    before = (dict(ann.begun), dict(bob.begun))
    fleet.store.lose_everything()
    fleet.run(ann, bob, seconds=40)
    assert (ann.begun, bob.begun) == before


def test_another_number_of_buckets_is_refused_before_anything_is_taken(fleet: Fleet) -> None:
    store = MemoryLeases(fleet.clock, bucket_names(TOTAL * 2), duration_s=TIMES.duration_s)
    store.total = str(TOTAL)
    other = Owner("bob", store, fleet.clock, TOTAL * 2, TIMES)
    with pytest.raises(ConfigurationError):
        other.round()
    assert other.ownership.held() == frozenset()


def test_work_ends_when_another_number_of_buckets_comes_into_force(fleet: Fleet) -> None:
    ann = fleet.worker("ann")
    ann.round()
    fleet.store.total = f"{TOTAL}>{2 * TOTAL}"
    for _ in range(round(TIMES.give_up_after_s / LOOK_EVERY_S) + 1):
        with pytest.raises(ConfigurationError):
            ann.round()
        fleet.clock.advance(LOOK_EVERY_S)
    assert ann.ownership.held() == frozenset()
    assert ann.begun == {}


def test_a_worker_that_drains_hands_over_everything_and_takes_nothing(fleet: Fleet) -> None:
    ann, bob, cyd = fleet.worker("ann"), fleet.worker("bob"), fleet.worker("cyd")
    fleet.run(ann, bob, cyd, seconds=20)
    fleet.store.draining.add("bob")
    held = []
    bob.while_releasing = lambda bucket: held.append(len(bob.ownership.held()))
    before = len(bob.ownership.held())
    fleet.run(ann, bob, cyd, seconds=5)
    assert bob.ownership.is_draining()
    assert bob.ownership.held() == frozenset()
    assert held == list(range(before))[::-1]
    assert sorted(len(worker.ownership.held()) for worker in (ann, cyd)) == [4, 4]
    cyd.ownership.release_all()
    fleet.run(ann, bob, seconds=5)
    assert ann.ownership.held() == NAMES
    fleet.store.draining.clear()
    fleet.run(ann, bob, seconds=10)
    assert len(ann.ownership.held()) == len(bob.ownership.held()) == 4


def test_a_lone_worker_that_drains_leaves_the_buckets_free(fleet: Fleet) -> None:
    ann = fleet.worker("ann")
    ann.round()
    fleet.store.draining.add("ann")
    fleet.run(ann, seconds=6)
    assert ann.ownership.held() == frozenset()
    assert all(row.holder is None for row in fleet.store.view().leases.values())


def test_a_worker_that_comes_and_goes_quickly_is_handed_nothing(fleet: Fleet) -> None:
    ann = fleet.worker("ann")
    ann.round()
    for turn in range(10):
        fleet.run(ann, fleet.worker(f"bob-{turn}"), seconds=3)
        fleet.store.leave(Holder("", f"bob-{turn}"))
        fleet.run(ann, seconds=2)
    assert ("releasing", next(iter(NAMES))) not in ann.notes
    assert ann.ownership.held() == NAMES


def test_nothing_is_handed_over_for_workers_that_are_dead_and_still_count(fleet: Fleet) -> None:
    ann, bob = fleet.worker("ann"), fleet.worker("bob")
    fleet.run(ann, bob, seconds=15)
    for turn in range(6):
        fleet.worker(f"dead-{turn}").ownership.step()
    fleet.run(ann, bob, seconds=14)
    assert len(fleet.store.view().live_agents) == 8
    free = [row for row in fleet.store.view().leases.values() if row.holder is None]
    assert len(free) <= 6  # some seconds' worth, not all that the dead would have a share in
    assert len(ann.ownership.held()) + len(bob.ownership.held()) == TOTAL - len(free)
    fleet.run(ann, bob, seconds=5)
    assert ann.ownership.held() | bob.ownership.held() == NAMES


def test_nothing_is_handed_over_while_nobody_may_take_it(fleet: Fleet) -> None:
    ann = fleet.worker("ann")
    ann.round()
    fleet.store.lose_everything()
    fleet.run(ann, fleet.worker("bob"), seconds=TIMES.duration_s - 1)
    assert ann.ownership.held() == NAMES


def test_who_is_back_first_after_an_outage_takes_its_share_only(fleet: Fleet) -> None:
    ann, bob = fleet.worker("ann"), fleet.worker("bob")
    fleet.run(ann, bob, seconds=10)
    fleet.store.is_away = True
    fleet.run(ann, bob, seconds=30)
    fleet.store.is_away = False
    ann.round()
    assert len(ann.ownership.held()) == 4
    fleet.run(bob, ann, seconds=10)
    assert len(ann.ownership.held()) == len(bob.ownership.held()) == 4
    assert not [bucket for what, bucket in ann.notes if what == "releasing"][4:]


def test_the_share_of_one_that_is_gone_and_still_counts_is_taken_by_the_others(fleet: Fleet) -> None:
    ann, bob, cid, dan = (fleet.worker(name) for name in ("ann", "bob", "cid", "dan"))
    fleet.run(ann, bob, cid, dan, seconds=25)
    assert [len(each.ownership.held()) for each in (ann, bob, cid, dan)] == [2, 2, 2, 2]
    # Dan is killed; cid is cut off a little later, and its heartbeat counts when dan's leases end.
    fleet.run(ann, bob, cid, seconds=10)
    ends_s = (
        max(row.remaining_ms for row in fleet.store.view().leases.values() if row.holder == dan.holder) / 1000
    )
    fleet.run(ann, bob, seconds=ends_s + 1.0 + LOOK_EVERY_S)
    owned = ann.ownership.held() | bob.ownership.held()
    assert NAMES - owned == {
        row.bucket for row in fleet.store.view().leases.values() if row.holder == cid.holder
    }
    # It comes back in time: what the others took above their share goes to it after a lease duration.
    fleet.run(ann, bob, cid, seconds=2)
    assert max(len(each.ownership.held()) for each in (ann, bob)) <= 3
    fleet.run(ann, bob, cid, seconds=TIMES.duration_s + 5)
    assert sorted(len(each.ownership.held()) for each in (ann, bob, cid)) == [2, 3, 3]


@pytest.mark.parametrize("looks", [3, 7])
def test_what_a_worker_hands_over_does_not_come_back_as_left_over(fleet: Fleet, looks: int) -> None:
    ann, bob = fleet.worker("ann"), fleet.worker("bob")
    fleet.run(ann, seconds=5)
    for _ in range(40):  # bob is slow: it looks every third or seventh time only
        bob.round()
        fleet.run(ann, seconds=looks * LOOK_EVERY_S)
    assert len(ann.ownership.held()) == len(bob.ownership.held()) == 4
    assert [what for what, _ in ann.notes].count("acquired") == TOTAL
