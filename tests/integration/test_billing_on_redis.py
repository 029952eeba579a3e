"""What billing leaves in a real Redis: another number of buckets takes it along."""

from __future__ import annotations

import pytest
import redis

from app.adapters.redis_billing import RedisBilling
from app.adapters.redis_connection import RedisConnection
from app.adapters.redis_keys import RedisKeys
from app.adapters.redis_resize import RedisResize
from app.cluster.ring import BucketSet
from app.metering.meter import MeterId
from app.metering.stored import id_field
from app.ports.billing import BillingStep
from app.ports.store import BucketName, FencingToken
from app.ports.vm import VmKey

TOKEN = FencingToken(1)
VMS = [MeterId(f"ns/vm-{number} [x]", "uid", "ep") for number in range(600)]
SINKS = ("http", "s3")


def names(ring: BucketSet) -> list[BucketName]:
    return [BucketName(name) for name in ring.names]


@pytest.mark.parametrize(("old", "new"), [(4, 6), (6, 1), (1, 5)])
def test_meters_and_waiting_events_move_with_another_number_of_buckets(
    redis_url: str, redis_prefix: str, old: int, new: int
) -> None:
    connection, keys = RedisConnection(redis_url), RedisKeys(redis_prefix)
    store, before, after = RedisBilling(connection, keys), BucketSet(old), BucketSet(new)
    for index, bucket in enumerate(names(before)):
        meters = {
            id_field(vm): b"meter of %d" % n for n, vm in enumerate(VMS) if before.owner(vm.key) == bucket
        }
        events = {"http": [b"a%d" % index, b"b%d" % index], "s3": [b"c%d" % index]}
        store.commit(bucket, TOKEN, BillingStep(1, meters=meters, events=events), SINKS)
    resize = RedisResize(connection, keys, "", duration_s=60)
    for _ in range(2):  # it may be killed, and is then run again
        resize.move_billing(names(before), names(after), lambda key: BucketName(after.owner(key)))

    found = {bucket: store.load(bucket, SINKS) for bucket in names(after)}
    assert {field: bucket for bucket, stored in found.items() for field in stored.meters} == {
        id_field(vm): after.owner(vm.key) for vm in VMS
    }
    waiting = [store.waiting(bucket, "http", 100).events for bucket in names(after)]
    assert sorted(event for events in waiting for event in events) == sorted(
        event for index in range(old) for event in (b"a%d" % index, b"b%d" % index)
    )
    for line in waiting:
        for index in range(old):
            pair = [event for event in line if event in (b"a%d" % index, b"b%d" % index)]
            assert pair in ([], [b"a%d" % index, b"b%d" % index])
    left = redis.Redis.from_url(redis_url).keys(f"{redis_prefix}*-of-{old:02d}*billing*")
    assert left == []
    for bucket in names(after):
        store.commit(bucket, TOKEN, BillingStep(found[bucket].step + 1, events={"http": [b"z"]}), SINKS)
        assert store.waiting(bucket, "http", 100).events[-1] == b"z"


def test_a_field_that_is_no_meters_stays_where_it_is(redis_url: str, redis_prefix: str) -> None:
    connection, keys = RedisConnection(redis_url), RedisKeys(redis_prefix)
    before, after = BucketSet(1), BucketSet(2)
    (bucket,) = names(before)
    client = redis.Redis.from_url(redis_url)
    client.hset(keys.billing(bucket), mapping={"[nobody's": "x", id_field(VMS[0]): "m"})
    RedisResize(connection, keys, "", duration_s=60).move_billing(
        [bucket], names(after), lambda key: BucketName(after.owner(key))
    )
    assert client.hkeys(keys.billing(bucket)) == [b"[nobody's"]
    assert client.hkeys(keys.billing(after.owner(VmKey(VMS[0].key)))) == [id_field(VMS[0]).encode()]
