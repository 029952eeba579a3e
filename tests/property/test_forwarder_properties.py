"""Stats, holders and failures at random: each taken stat has one fate, and none is accepted twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from app.cluster.ring import BucketSet
from app.errors import OwnershipLost, StoreUnavailable
from app.ports.store import Holder
from app.services.forwarder import Forwarder
from app.services.forwarding_processors import LeaseWatch, lease_based_processor
from app.services.stat_fates import Fate
from tests.fakes.clock import FakeClock
from tests.fakes.concurrency import VirtualConcurrency
from tests.unit.services.test_forwarder import Stat

BUCKETS = BucketSet(3)
KEYS = ("a/one", "a/two", "b/three")
WORKERS = 2


class World:
    """Two workers, what Redis has of each VM, and each bucket's queue."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.jobs = VirtualConcurrency(self.clock)
        self.owner: dict[str, int | None] = dict.fromkeys(BUCKETS.names)
        self.last: dict[str, int] = {}
        self.queues: dict[str, list[Stat]] = {name: [] for name in BUCKETS.names}
        self.is_away = False
        self.accepted: list[Stat] = []
        self.fates: list[tuple[Stat, Fate]] = []
        self.workers = [self._worker(number) for number in range(WORKERS)]

    def _worker(self, number: int) -> tuple[Forwarder, LeaseWatch]:
        forwarder = Forwarder(
            BUCKETS,
            clock=self.clock,
            concurrency=self.jobs,
            holder=Holder(f"worker{number}_10.0.0.{number}", f"agent-{number}"),
            send=self._send,
            noted=lambda stat, fate: self.fates.append((stat, fate)),
        )
        return forwarder, lease_based_processor(forwarder, self._acceptor(number))

    def _acceptor(self, number: int) -> Callable[[Stat], Fate | None]:
        def accept(stat: Stat) -> Fate | None:
            bucket = BUCKETS.owner(stat.key)
            self.jobs.sleep(0.01)
            if self.is_away:
                raise StoreUnavailable("redis", "away")
            if self.owner[bucket] != number:
                raise OwnershipLost(bucket, "fenced")
            if stat.timestamp <= self.last.get(stat.key, 0):
                return Fate.LATE
            self.last[stat.key] = stat.timestamp
            self.accepted.append(stat)
            return None

        return accept

    def _send(self, bucket: str, stat: Stat) -> None:
        self.jobs.sleep(0.01)
        if self.is_away:
            raise StoreUnavailable("redis", "away")
        self.queues[bucket].append(stat)

    def give(self, bucket: str, number: int | None) -> None:
        self.owner[bucket] = number
        for index, (forwarder, watch) in enumerate(self.workers):
            if number is not None:
                assert forwarder.holder is not None
                watch.updated(bucket, Holder(f"worker{number}_10.0.0.{number}", f"agent-{number}"))
            elif forwarder.is_bucket_owner(bucket) and index is not None:
                watch.lost(bucket)

    def read(self, bucket: str) -> None:
        """The owner reads its queue; what it gives back is put in front again."""
        number = self.owner[bucket]
        if number is None:
            return
        waiting, self.queues[bucket] = self.queues[bucket], []
        for stat in waiting:
            if not self.workers[number][0].receive(stat, Reading(self, bucket, number, stat)):
                self.queues[bucket].append(stat)


class Reading:
    def __init__(self, world: World, bucket: str, number: int, stat: Stat) -> None:
        self._world, self._bucket, self._number, self._stat = world, bucket, number, stat

    def is_current(self) -> bool:
        return self._world.owner[self._bucket] == self._number

    def finish(self, fate: Fate) -> None:
        if fate is Fate.RETURNED:
            self._world.queues[self._bucket].insert(0, self._stat)


STEPS = st.one_of(
    st.tuples(st.just("stat"), st.integers(0, WORKERS - 1), st.sampled_from(KEYS), st.integers(1, 12)),
    st.tuples(st.just("owner"), st.sampled_from(BUCKETS.names), st.sampled_from([None, 0, 1])),
    st.tuples(st.just("away"), st.booleans()),
    st.tuples(st.just("read"), st.sampled_from(BUCKETS.names)),
    st.tuples(st.just("time"), st.sampled_from([0.005, 0.5, 3.0, 16.0])),
    st.tuples(st.just("cancel"), st.integers(0, WORKERS - 1)),
)


@given(st.lists(STEPS, max_size=60))
@settings(max_examples=200, deadline=None)
def test_each_taken_stat_has_one_fate_and_a_vms_accepted_ones_are_in_order(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    world = World()
    taken = Counter[Stat]()
    for step in steps:
        match step:
            case ("stat", number, key, timestamp):
                stat = Stat(key, timestamp)
                taken[stat] += world.workers[number][0].process(stat)
            case ("owner", bucket, number):
                world.give(bucket, number)
            case ("away", is_away):
                world.is_away = is_away
            case ("read", bucket):
                world.read(bucket)
            case ("time", seconds):
                world.jobs.advance(seconds)
            case ("cancel", number):
                world.jobs.spawn("cancel", world.workers[number][0].cancel)
                world.jobs.run()
                world.jobs.advance(1.0)
        assert_sums(world)
    # Stats of one VM wait for each other, each for up to 15 s of its own.
    world.jobs.advance(16.0 * (len(steps) + 1))
    assert world.jobs.alive == set()
    ended = Counter(
        stat for stat, fate in world.fates if fate not in (Fate.FORWARDED, Fate.RETURNED)
    ) + Counter(stat for queue in world.queues.values() for stat in queue)
    assert ended == taken
    assert len(set(world.accepted)) == len(world.accepted)
    for key in KEYS:
        times = [stat.timestamp for stat in world.accepted if stat.key == key]
        assert times == sorted(times)


def assert_sums(world: World) -> None:
    for forwarder, _ in world.workers:
        counts = forwarder.counts
        ended = counts.accepted + counts.forwarded + counts.late + counts.dropped + counts.returned
        assert counts.taken + counts.received == ended + forwarder.in_hand
        assert len([fate for _, fate in world.fates]) >= ended
