"""What each past version has left in Redis is read by today's code: records, leases, intents, messages."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from app.adapters.redis_agents import RedisAgents
from app.adapters.redis_connection import RedisConnection
from app.adapters.redis_intents import RedisIntents
from app.adapters.redis_keys import RedisKeys
from app.adapters.redis_leases import RedisLeases
from app.adapters.redis_state import RedisState
from app.adapters.redis_ticks import RedisTicks
from app.cluster.ring import BucketSet, bucket_names
from app.core.snapshot import SNAPSHOT_VERSION, to_snapshot
from app.ports.store import BucketName, FencingToken, Holder
from app.ports.vm import VmKey
from app.services.agent_facts import read_agent
from app.services.record import build_record, restore_runner
from app.services.record_version import RECORD_VERSION
from app.services.vm_record import read_audit_entry, read_record
from app.services.vm_row import build_row
from tests.fakes.clock import FakeClock
from tests.fakes.redis_time import elapse
from tests.service_builders import a_runner, a_virtual_machine, load_of, some_settings
from tests.stored_states import load_into, stored, versions

TOTAL = 16
NAMES = [BucketName(name) for name in bucket_names(TOTAL)]
DURATION_S = 600.0


class Kept:
    """What one version has left, in a Redis of today."""

    def __init__(self, url: str, prefix: str, version: int) -> None:
        self.version = version
        self.client, self.connection = redis.Redis.from_url(url), RedisConnection(url)
        self.prefix, self.keys = prefix, RedisKeys(prefix)
        load_into(self.client, version, prefix)
        self.states = RedisState(self.connection, self.keys)
        self.leases = RedisLeases(self.connection, self.keys, NAMES, duration_s=DURATION_S)

    def records(self) -> dict[tuple[BucketName, VmKey], bytes]:
        return {(bucket, key): raw for bucket in NAMES for key, raw in self.states.load(bucket).items()}

    def close(self) -> None:
        names = list(self.client.scan_iter(match=f"{self.prefix}:*"))
        self.client.delete(*names)
        self.client.close()
        self.connection.close()


@pytest.fixture(params=versions())
def kept(request: pytest.FixtureRequest, redis_url: str, redis_prefix: str) -> Iterator[Kept]:
    found = Kept(redis_url, redis_prefix, request.param)
    yield found
    found.close()


def test_something_is_stored_of_every_version_up_to_this_one() -> None:
    assert versions() == list(range(1, RECORD_VERSION + 1)), "run: python -m tests.stored_states"


def test_a_new_owner_goes_on_from_each_record(kept: Kept) -> None:
    ring = BucketSet(TOTAL)
    records = kept.records()
    assert len(records) == 7
    for (bucket, key), raw in records.items():
        assert ring.owner(key) == bucket
        record = json.loads(raw)
        namespace, _, name = key.partition("/")
        vm = a_virtual_machine(namespace=namespace, name=name, uid=record["uid"])
        clock = FakeClock(record["core_now_ms"])
        runner = restore_runner(raw, vm, bucket, some_settings(), clock)
        assert runner.now() >= record["core_now_ms"]
        assert runner.counters.polls == record["counters"]["polls"] > 0
        if record["snapshot"]["version"] == SNAPSHOT_VERSION:
            again = json.loads(json.dumps(to_snapshot(runner.state)))
            own = dict.fromkeys(("config", "mode", "observe_unit"))  # those of this owner and of the intents
            assert {**again, **own} == {**record["snapshot"], **own}


def test_operators_are_shown_each_record_and_its_audit_trail(kept: Kept) -> None:
    for (bucket, key), raw in kept.records().items():
        record = read_record(key, raw)
        assert build_row(record, record.core_now_ms).key == key
        entries = [read_audit_entry(entry) for _, entry in kept.states.events(bucket, key, 100)]
        assert "added" in {entry.kind for entry in entries}


def test_tokens_go_on_from_the_stored_ones(kept: Kept) -> None:
    before = kept.leases.view().leases
    assert all(row.token > 0 for row in before.values())
    ann = Holder("ann_10.0.0.1", "agent-ann")
    kept.leases.check_total(TOTAL)
    kept.leases.round(ann, {})
    elapse(kept.client, kept.prefix, DURATION_S + 1)
    taken = kept.leases.acquire(ann, NAMES, FencingToken(0))
    assert taken.keys() == set(NAMES)
    assert all(token > before[bucket].token for bucket, token in taken.items())
    seqs = {name: int(stored(kept.version)[f"vmscaler:{{{name}}}:seq"]["value"]["seq"]) for name in NAMES}
    due = RedisTicks(kept.connection, kept.keys).take_due(TOTAL, 1.0)
    assert all(seq == seqs[bucket] + 1 for bucket, seq in due)


def test_operators_wishes_still_stand(kept: Kept) -> None:
    intents = [intent for name in NAMES for intent in RedisIntents(kept.connection, kept.keys).list(name)]
    assert sorted((intent.kind, intent.value) for intent in intents) == [("mode", "observe"), ("pause", "on")]


def test_what_processes_said_of_themselves_is_read(kept: Kept) -> None:
    kept.client.zadd(kept.keys.agents_until(), dict.fromkeys(kept.client.hkeys(kept.keys.agents()), 10**15))
    rows = [read_agent(record) for record in RedisAgents(kept.connection, kept.keys).list()]
    assert {row.kind for row in rows} >= {"worker", "beat", "scheduler"}


def test_its_task_messages_name_tasks_and_arguments_that_we_take(kept: Kept) -> None:
    from workers.tasks import ticks

    known = {"vmscaler.tick": ticks.tick, "vmscaler.poll_bucket": ticks.poll_bucket}
    seen = set()
    for name, entry in stored(kept.version).items():
        if entry["type"] != "list":
            continue
        for text in entry["value"]:
            message: dict[str, Any] = json.loads(text)
            args, kwargs, _ = json.loads(base64.b64decode(message["body"]))
            task = known[message["headers"]["task"]]
            task.__header__(*args, **kwargs)
            seen.add(task.name)
            assert name == "vmscaler" or kwargs or args[0] == name
    assert seen == set(known)


def test_todays_records_keep_every_field_that_this_version_has_always_had() -> None:
    """A field goes, or changes its type, only with the version: other workers may be of an earlier day."""
    (first, *_) = (
        json.loads(raw)
        for entry in stored(RECORD_VERSION).values()
        if entry["type"] == "hash"
        for raw in entry["value"].values()
        if raw.startswith('{"v"')
    )
    runner = a_runner(FakeClock())
    runner.take_sample(load_of(2))
    runner.decide()
    today = json.loads(json.dumps(build_record(runner)))

    def compare(then: object, now: object, path: str) -> None:
        if isinstance(then, dict) and isinstance(now, dict):
            for name, inner in then.items():
                if path.endswith((".actions", ".counters")):
                    continue
                assert name in now, f"{path}.{name} is gone: raise RECORD_VERSION"
                compare(inner, now[name], f"{path}.{name}")
        elif then is not None and now is not None:
            assert shape_name(then) == shape_name(now), f"{path} has another type: raise RECORD_VERSION"

    def shape_name(value: object) -> str:
        return "number" if type(value) in (int, float) else type(value).__name__

    compare(first, today, "record")
