"""What every `StateStore` does: fenced writes, all or nothing, an audit trail that outlives its VM."""

from __future__ import annotations

import pytest

from app.adapters.redis_state import RedisState
from app.errors import OwnershipLost
from app.ports.store import BucketName, FencingToken, VmWrite
from app.ports.vm import VmKey
from tests.contract.conftest import Backend
from tests.fakes.states import MemoryState

BUCKET = BucketName("autoscaler-bucket-00-of-01")
OTHER = BucketName("autoscaler-bucket-01-of-02")
VM, VM2 = VmKey("ns/vm"), VmKey("ns/vm2")
OLD, NEW = FencingToken(1_764_000_000_000), FencingToken(1_764_000_000_001)
RETENTION_S = 1000.0

Store = RedisState | MemoryState


@pytest.fixture
def store(backend: Backend) -> Store:
    if backend.connection is None:
        assert backend.clock is not None
        return MemoryState(backend.clock, retention_s=RETENTION_S)
    return RedisState(backend.connection, backend.keys, retention_s=RETENTION_S)


def entries(store: Store, key: VmKey = VM, limit: int = 100) -> list[bytes]:
    return [entry for _, entry in store.events(BUCKET, key, limit)]


def test_records_are_read_back_as_they_were_written(store: Store) -> None:
    odd = VmKey("ns/ü")
    store.commit(BUCKET, OLD, [VmWrite(VM, b'{"a": "\xc3\xbc"}'), VmWrite(odd, b"\x00\n")])
    assert store.load(BUCKET) == {VM: b'{"a": "\xc3\xbc"}', odd: b"\x00\n"}
    assert store.read(BUCKET, odd) == b"\x00\n"
    assert store.read(BUCKET, VM2) is None
    assert store.load(OTHER) == {}


def test_an_older_token_writes_nothing_at_all(store: Store) -> None:
    store.commit(BUCKET, NEW, [VmWrite(VM, b"new")])
    with pytest.raises(OwnershipLost):
        store.commit(BUCKET, OLD, [VmWrite(VM, b"old", events=(b"e",)), VmWrite(VM2, b"old")])
    with pytest.raises(OwnershipLost):
        store.commit(BUCKET, OLD, [VmWrite(VM, None, is_deleted=True)])
    assert store.load(BUCKET) == {VM: b"new"}
    assert entries(store) == []


def test_a_raised_fence_refuses_the_earlier_owner_before_the_first_write(store: Store) -> None:
    store.commit(BUCKET, OLD, [VmWrite(VM, b"old")])
    store.raise_fence(BUCKET, NEW)
    store.raise_fence(BUCKET, NEW)
    with pytest.raises(OwnershipLost):
        store.commit(BUCKET, OLD, [VmWrite(VM, b"older")])
    with pytest.raises(OwnershipLost):
        store.raise_fence(BUCKET, OLD)
    store.commit(BUCKET, NEW, [VmWrite(VM, b"new")])
    assert store.load(BUCKET) == {VM: b"new"}


def test_a_fence_is_a_buckets_own(store: Store) -> None:
    store.raise_fence(BUCKET, NEW)
    store.commit(OTHER, OLD, [VmWrite(VM, b"x")])
    assert store.load(OTHER) == {VM: b"x"}


def test_nothing_to_write_is_nothing_written(store: Store) -> None:
    store.commit(BUCKET, OLD, [])
    assert store.load(BUCKET) == {}


def test_events_without_a_record_leave_the_record(store: Store) -> None:
    store.commit(BUCKET, OLD, [VmWrite(VM, b"r")])
    store.commit(BUCKET, OLD, [VmWrite(VM, None, events=(b"e1", b"e2"))])
    assert store.read(BUCKET, VM) == b"r"
    assert entries(store) == [b"e1", b"e2"]


def test_the_newest_events_come_oldest_first_with_their_time(store: Store, backend: Backend) -> None:
    before = backend.now_ms()
    store.commit(BUCKET, OLD, [VmWrite(VM, b"r", events=tuple(b"e%d" % n for n in range(10)))])
    assert entries(store, limit=3) == [b"e7", b"e8", b"e9"]
    assert entries(store, limit=0) == []
    assert all(at_ms >= before for at_ms, _ in store.events(BUCKET, VM, 10))


def test_a_commit_of_250_vms_with_events_is_one_call(store: Store) -> None:
    writes = [VmWrite(VmKey(f"ns/{n}"), b"r%d" % n, events=(b"e",)) for n in range(250)]
    store.commit(BUCKET, OLD, writes)
    assert store.load(BUCKET) == {write.key: write.record for write in writes}
    assert entries(store, VmKey("ns/249")) == [b"e"]


def test_a_deleted_vm_can_be_looked_at_until_its_retention_ends(store: Store, backend: Backend) -> None:
    store.commit(BUCKET, OLD, [VmWrite(VM, b"last", events=(b"e1",)), VmWrite(VM2, b"stays")])
    store.commit(BUCKET, OLD, [VmWrite(VM, None, is_deleted=True, events=(b"gone",))])
    assert store.load(BUCKET) == {VM2: b"stays"}
    assert store.read(BUCKET, VM) == b"last"
    assert entries(store) == [b"e1", b"gone"]
    backend.elapse(RETENTION_S + 1)
    assert store.read(BUCKET, VM) is None
    assert entries(store) == []
    assert store.read(BUCKET, VM2) == b"stays"


def test_a_last_record_may_come_with_the_deletion(store: Store) -> None:
    store.commit(BUCKET, OLD, [VmWrite(VM, b"first")])
    store.commit(BUCKET, OLD, [VmWrite(VM, b"very last", is_deleted=True)])
    assert store.load(BUCKET) == {}
    assert store.read(BUCKET, VM) == b"very last"


def test_deleting_what_was_never_there_is_no_error(store: Store) -> None:
    store.commit(BUCKET, OLD, [VmWrite(VM, None, is_deleted=True)])
    assert store.read(BUCKET, VM) is None


def test_a_vm_that_comes_back_keeps_its_audit_trail_for_good(store: Store, backend: Backend) -> None:
    store.commit(BUCKET, OLD, [VmWrite(VM, b"first", events=(b"e1",))])
    store.commit(BUCKET, OLD, [VmWrite(VM, None, is_deleted=True)])
    store.commit(BUCKET, OLD, [VmWrite(VM, b"second", events=(b"e2",))])
    backend.elapse(RETENTION_S + 1)
    assert store.read(BUCKET, VM) == b"second"
    assert entries(store) == [b"e1", b"e2"]
