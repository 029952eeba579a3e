from __future__ import annotations

from app.cluster.lease import LeaseTimes
from app.cluster.ring import bucket_names
from app.ports.store import BucketName
from tests.fakes.clock import FakeClock
from tests.fakes.leases import MemoryLeases
from tests.fakes.owners import Owner

NAMES = [BucketName(name) for name in bucket_names(2)]


def test_a_round_that_was_under_way_at_the_shutdown_leaves_no_heartbeat_behind() -> None:
    clock = FakeClock()
    store = MemoryLeases(clock, NAMES, duration_s=15)
    owner = Owner("ann", store, clock, 2, LeaseTimes())

    def shut_down(call: str) -> None:
        if call == "round":
            store.before_call = lambda name: None
            owner.ownership.release_all()

    store.before_call = shut_down
    owner.ownership.step()
    assert store.view().live_agents == ()
