"""Another number of buckets: everything of every VM moves, also when the command is killed at any step."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import redis

from app.adapters.redis_agents import RedisAgents
from app.adapters.redis_connection import RedisConnection
from app.adapters.redis_intents import RedisIntents
from app.adapters.redis_keys import RedisKeys
from app.adapters.redis_leases import RedisLeases
from app.adapters.redis_resize import RedisResize
from app.adapters.redis_state import RedisState
from app.adapters.redis_stats import RedisStats
from app.adapters.redis_ticks import RedisTicks
from app.cli.root import run
from app.cluster.ring import BucketSet
from app.errors import ConfigurationError, OwnershipLost, StoreUnavailable, UsageError
from app.ports.store import BucketName, FencingToken, Holder, VmWrite
from app.ports.vm import VmKey
from app.protocols.stats import Stat, decode_stat, encode_stat
from app.services.resizing import Resizing
from tests.fakes.redis_time import elapse
from tests.service_builders import an_intent

OLD, NEW = 4, 6
VMS = [VmKey(f"ns/vm-{number}") for number in range(20)]
GONE = VmKey("ns/gone: *[x]\n")
ANN = Holder("ann_10.0.0.1", "agent-ann")
DURATION_S = 60.0


class Killed(Exception):
    """The command was killed."""


class Fleet:
    """What a fleet of `OLD` buckets leaves in Redis when its workers stop."""

    def __init__(self, url: str, prefix: str) -> None:
        self.client, self.connection, self.prefix = redis.Redis.from_url(url), RedisConnection(url), prefix
        self.keys = RedisKeys(prefix)
        self.states, self.stats = (
            RedisState(self.connection, self.keys),
            RedisStats(self.connection, self.keys),
        )
        self.intents, self.agents = (
            RedisIntents(self.connection, self.keys),
            RedisAgents(self.connection, self.keys),
        )
        self.old = BucketSet(OLD)
        leases = self.leases(OLD)
        leases.round(ANN, {})
        elapse(self.client, prefix, DURATION_S + 1)
        leases.round(ANN, {})
        self.taken = leases.acquire(ANN, self.names(OLD), FencingToken(10**15))
        for key in [*VMS, GONE]:
            self.write(key)
        self.states.commit(self.bucket(GONE), self.token(GONE), [VmWrite(GONE, None, is_deleted=True)])
        for name in self.names(OLD):
            self.intents.put(name, an_intent(target="*", kind="pause"))
            self.client.lpush(f"{prefix}:{name}", "a tick", "a scaling task")
        self.intents.put(self.bucket(VMS[0]), an_intent(target=VMS[0], kind="mode", value="observe"))
        for timestamp in (1, 2, 3):
            for key in VMS[:3]:
                self.stats.put(self.bucket(key), encode_stat(Stat(key, 1.0, 1.0, 2, 1, timestamp)))
        self.stats.put(self.bucket(VMS[0]), b"no stat")
        self.seqs = [seq for _, seq in RedisTicks(self.connection, self.keys).take_due(OLD, 5.0)]
        leases.release(ANN, self.taken)
        leases.leave(ANN)

    def write(self, key: VmKey, text: str = "") -> None:
        record = json.dumps({"key": key, "bucket": self.bucket(key), "text": text}).encode()
        entry = b'{"kind":"added"}'
        self.states.commit(self.bucket(key), self.token(key), [VmWrite(key, record, events=(entry,))])

    def leases(self, total: int) -> RedisLeases:
        return RedisLeases(self.connection, self.keys, BucketSet(total).names, duration_s=DURATION_S)

    @staticmethod
    def names(total: int) -> list[BucketName]:
        return [BucketName(name) for name in BucketSet(total).names]

    def bucket(self, key: VmKey) -> BucketName:
        return BucketName(self.old.owner(key))

    def token(self, key: VmKey) -> FencingToken:
        return self.taken[self.bucket(key)]

    def store(self) -> RedisResize:
        return RedisResize(self.connection, self.keys, f"{self.prefix}:", duration_s=DURATION_S)

    def resizing(self, store: Any = None) -> Resizing:
        return Resizing(store or self.store(), self.agents)


@pytest.fixture
def fleet(redis_url: str, redis_prefix: str) -> Iterator[Fleet]:
    fleet = Fleet(redis_url, redis_prefix)
    yield fleet
    fleet.client.delete(*fleet.client.scan_iter(match=f"{redis_prefix}:*"))
    fleet.client.close()
    fleet.connection.close()


def check_moved(fleet: Fleet, total: int) -> None:
    """Everything is under the new names, once, and nothing but fences is under the old ones."""
    ring = BucketSet(total)
    found: dict[VmKey, bytes] = {}
    stats: list[Stat] = []
    for name in fleet.names(total):
        records = fleet.states.load(name)
        assert all(ring.owner(key) == name for key in records)
        found |= records
        stats += [decode_stat(raw) for raw in fleet.stats.read(name, 0, 100)]
        intents = {(intent.target, intent.kind) for intent in fleet.intents.list(name)}
        mine = {(VMS[0], "mode")} if ring.owner(VMS[0]) == name else set()
        assert intents == {("*", "pause")} | mine
    assert sorted(found) == sorted(VMS)
    assert {json.loads(record)["bucket"] for record in found.values()} <= set(ring.names)
    assert sorted((stat.key, stat.timestamp) for stat in stats) == [
        (key, at) for key in VMS[:3] for at in (1, 2, 3)
    ]
    for key in VMS[:3]:
        assert [stat.timestamp for stat in stats if stat.key == key] == [1, 2, 3]
    for key in [*VMS, GONE]:
        assert len(fleet.states.events(BucketName(ring.owner(key)), key, 10)) == 1
    gone = BucketName(ring.owner(GONE))
    assert fleet.states.read(gone, GONE) is not None
    assert 0 < fleet.client.pttl(fleet.keys.deleted(gone, GONE)) <= 24 * 3600 * 1000
    left = {key.decode() for key in fleet.client.scan_iter(match=f"{fleet.prefix}:*-of-{OLD:02}*")}
    assert left <= {fleet.keys.fence(name) for name in fleet.names(OLD)}
    assert fleet.leases(total).stored_total() == total


def test_everything_of_every_vm_moves_and_no_token_or_seq_goes_down(fleet: Fleet) -> None:
    resizing = fleet.resizing()
    plan = resizing.plan(NEW)
    assert (plan.vms, plan.gone, plan.intents, plan.stats) == (20, 1, 2, 10)
    outcome = resizing.carry_out(plan, lambda vms: None)
    assert (outcome.vms, outcome.stats, outcome.dropped_stats, outcome.dropped_tasks) == (20, 9, 1, 2 * OLD)
    check_moved(fleet, NEW)
    leases = fleet.leases(NEW)
    leases.round(ANN, {})
    taken = leases.acquire(ANN, fleet.names(NEW), FencingToken(0))
    assert len(taken) == NEW
    assert min(taken.values()) > max(fleet.taken.values())
    due = RedisTicks(fleet.connection, fleet.keys).take_due(NEW, 5.0)
    assert len(due) == NEW
    assert min(seq for _, seq in due) > max(fleet.seqs)


def test_there_and_back_again_ends_where_it_began(fleet: Fleet) -> None:
    for total in (NEW, OLD):
        fleet.resizing().carry_out(fleet.resizing().plan(total), lambda vms: None)
    ring = BucketSet(OLD)
    assert sorted(key for name in ring.names for key in fleet.states.load(BucketName(name))) == sorted(VMS)
    assert fleet.resizing().plan(OLD).is_done


@dataclass
class Mortal:
    """The store, of which every call may be the last one before the command is killed."""

    store: RedisResize
    left: int
    is_answered: bool

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> Any:
            self.left -= 1
            if self.left < 0 and not self.is_answered:
                raise Killed
            answer = getattr(self.store, name)(*arguments)
            if self.left < 0:
                raise Killed
            return answer

        return call


@pytest.mark.parametrize("calls", [2, 3, 4, 5, 6, 15, 16, 25, 34, 35, 36, 37])
@pytest.mark.parametrize("is_answered", [False, True])
def test_killed_at_any_step_a_second_run_finishes_and_no_worker_starts_in_between(
    fleet: Fleet, calls: int, is_answered: bool
) -> None:
    mortal = fleet.resizing(Mortal(fleet.store(), calls, is_answered))
    try:
        mortal.carry_out(mortal.plan(NEW), lambda vms: None)
    except Killed:
        if fleet.store().stored() == f"{OLD}>{NEW}":
            for total in (OLD, NEW):
                with pytest.raises(ConfigurationError, match=f"resize {NEW}"):
                    fleet.leases(total).check_total(total)
            with pytest.raises(UsageError, match=f"resize {NEW}"):
                fleet.resizing().plan(NEW + 1)
    again = fleet.resizing()
    plan = again.plan(NEW)
    if not plan.is_done:
        again.carry_out(plan, lambda vms: None)
    check_moved(fleet, NEW)


def test_workers_at_work_are_named_and_nothing_moves(fleet: Fleet) -> None:
    fleet.agents.register(ANN.agent_id, b'{"kind":"worker","name":"ann \\u001b[31m"}', 60)
    fleet.leases(OLD).round(ANN, {})
    with pytest.raises(UsageError, match=r"at work.*: ann \\x1b\[31m; stop all workers first"):
        fleet.resizing().plan(NEW)
    assert not fleet.store().begin(OLD, NEW)
    assert fleet.store().stored() == str(OLD)


def test_a_lease_without_heartbeat_counts_until_it_ends(fleet: Fleet) -> None:
    leases = fleet.leases(OLD)
    leases.acquire(ANN, fleet.names(OLD)[:1], FencingToken(0))
    with pytest.raises(UsageError, match=r"ann_10\.0\.0\.1"):
        fleet.resizing().plan(NEW)
    elapse(fleet.client, fleet.prefix, DURATION_S + 1)
    assert fleet.resizing().plan(NEW).vms == 20


def test_a_worker_that_was_stopped_all_the_while_writes_nothing_under_the_old_names(fleet: Fleet) -> None:
    fleet.resizing().carry_out(fleet.resizing().plan(NEW), lambda vms: None)
    with pytest.raises(OwnershipLost):
        fleet.write(VMS[0], "from the past")
    with pytest.raises(ConfigurationError, match=f"has {NEW} in Redis"):
        fleet.leases(OLD).round(ANN, {})
    assert fleet.leases(OLD).acquire(ANN, fleet.names(OLD), FencingToken(0)) == {}


def test_without_a_fleet_there_is_nothing_to_move(redis_url: str, redis_prefix: str) -> None:
    connection = RedisConnection(redis_url)
    keys = RedisKeys(redis_prefix)
    store = RedisResize(connection, keys, "", duration_s=1.0)
    with pytest.raises(UsageError, match=r"no worker has ever started"):
        Resizing(store, RedisAgents(connection, keys)).plan(NEW)
    connection.close()


def run_command(
    fleet: Fleet, redis_url: str, tmp_path: Any, capsys: pytest.CaptureFixture[str], arguments: Sequence[str]
) -> tuple[int, str]:
    config = tmp_path / "config.json"
    settings = {"redis": {"url": redis_url, "prefix": fleet.prefix}, "ownership": {"buckets": OLD}}
    config.write_text(json.dumps(settings))
    status = run(["--config", str(config), "buckets", "resize", *arguments])
    output = capsys.readouterr()
    return status, output.out + output.err


def test_the_command_tells_first_and_moves_only_when_it_is_meant(
    fleet: Fleet, redis_url: str, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    status, told = run_command(fleet, redis_url, tmp_path, capsys, [str(NEW)])
    assert status == 0
    assert "changing 4 buckets to 6" in told
    assert "20 VMs, and the trails of 1 deleted VM" in told
    assert "nothing was changed: say --yes" in told
    assert fleet.leases(OLD).stored_total() == OLD
    status, told = run_command(fleet, redis_url, tmp_path, capsys, [str(NEW), "--yes"])
    assert status == 0
    assert "moved 20 VMs and 9 stats, 1 unreadable ones dropped" in told
    assert "set .ownership.buckets to 6 (it is 4)" in told
    check_moved(fleet, NEW)
    _, told = run_command(fleet, redis_url, tmp_path, capsys, [str(NEW), "--yes", "--json"])
    assert json.loads(told) == {
        "old": 6,
        "new": 6,
        "unfinished": False,
        "to_move": {"vms": 0, "gone": 0, "intents": 0, "stats": 0},
        "moved": None,
    }


def test_other_commands_say_that_a_resize_is_unfinished(
    fleet: Fleet, redis_url: str, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    mortal = fleet.resizing(Mortal(fleet.store(), 5, True))
    with pytest.raises(Killed):
        mortal.carry_out(mortal.plan(NEW), lambda vms: None)
    config = tmp_path / "config.json"
    settings = {"redis": {"url": redis_url, "prefix": fleet.prefix}, "ownership": {"buckets": OLD}}
    config.write_text(json.dumps(settings))
    for command in (["status"], ["pause", "--all"], ["pause", VMS[0]], ["vm", "list"]):
        assert run(["--config", str(config), *command]) == 2
        assert f"run `vmscaler buckets resize {NEW}`" in capsys.readouterr().err


def test_a_redis_that_is_away_leaves_it_to_a_second_run(fleet: Fleet) -> None:
    away = RedisResize(RedisConnection("redis://127.0.0.1:1/0"), fleet.keys, "", duration_s=1.0)
    with pytest.raises(StoreUnavailable):
        Resizing(away, fleet.agents).plan(NEW)
