"""A fail-over is a new epoch, also to a replica that lags: no token goes down, nobody acquires too early."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.adapters.redis_connection import RedisConnection
from app.adapters.redis_keys import RedisKeys
from app.adapters.redis_leases import RedisLeases
from app.cluster.ring import bucket_names
from app.ports.store import BucketName, FencingToken, Holder
from tests.fakes.redis_time import elapse
from tests.fleet_process import until
from tests.redis_server import TcpRedis

DURATION_S = 600.0
ONE, TWO = (BucketName(name) for name in bucket_names(2))
ANN, BOB = Holder("ann_10.0.0.1", "ann"), Holder("bob_10.0.0.2", "bob")


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[TcpRedis, TcpRedis]]:
    """A master and its replica, in step."""
    master, replica = TcpRedis(tmp_path / "a"), TcpRedis(tmp_path / "b")
    follow(replica, master)
    yield master, replica
    replica.close()
    master.close()


def follow(replica: TcpRedis, master: TcpRedis) -> None:
    replica.client().replicaof("127.0.0.1", master.port)
    until(lambda: replica.client().info("replication")["master_link_status"] == "up", "the replica follows")


def promote(server: TcpRedis) -> None:
    server.client().replicaof("NO", "ONE")


def leases_on(server: TcpRedis) -> RedisLeases:
    return RedisLeases(RedisConnection(server.url), RedisKeys("p"), [ONE, TWO], duration_s=DURATION_S)


def acquire_unseen(master: TcpRedis, replica: TcpRedis) -> FencingToken:
    """Ann takes a lease of which the replica, promoted behind the master's back, never hears."""
    leases = leases_on(master)
    leases.round(ANN, {})
    elapse(master.client(), "p", DURATION_S + 1)
    since = master.client().hget("p:epoch", "since_ms")
    until(lambda: replica.client().hget("p:epoch", "since_ms") == since, "the replica is in step")
    promote(replica)
    return leases.acquire(ANN, [ONE], FencingToken(0))[ONE]


def test_a_replica_that_lags_lets_nobody_acquire_and_takes_the_holders_word(
    servers: tuple[TcpRedis, TcpRedis],
) -> None:
    master, replica = servers
    token = acquire_unseen(master, replica)
    master.stop(signal.SIGKILL)
    leases = leases_on(replica)
    assert leases.view().leases[ONE].holder is None
    assert leases.acquire(BOB, [ONE, TWO], FencingToken(0)) == {}
    leases.round(BOB, {})
    assert leases.acquire(BOB, [ONE, TWO], FencingToken(0)) == {}
    assert leases.round(ANN, {ONE: token}).renewed == {ONE}
    assert leases.view().leases[ONE].token == token
    elapse(replica.client(), "p", DURATION_S + 1)
    # The silence is over, and so is Ann's lease; her token is known here now.
    assert leases.acquire(BOB, [ONE], FencingToken(0))[ONE] > token


def test_a_master_that_was_a_replica_for_a_moment_has_another_history(
    servers: tuple[TcpRedis, TcpRedis],
) -> None:
    master, replica = servers
    token = acquire_unseen(master, replica)
    run_id = master.client().info("server")["run_id"]
    follow(master, replica)
    promote(master)
    assert master.client().info("server")["run_id"] == run_id
    leases = leases_on(master)
    assert leases.view().leases[ONE].holder is None
    assert leases.view().silence_ms == DURATION_S * 1000
    assert leases.acquire(BOB, [ONE, TWO], FencingToken(0)) == {}
    leases.round(BOB, {})
    assert leases.acquire(BOB, [ONE, TWO], FencingToken(0)) == {}
    assert leases.round(ANN, {ONE: token}).renewed == {ONE}


def test_a_reader_sees_that_a_replica_takes_no_writes(servers: tuple[TcpRedis, TcpRedis]) -> None:
    master, replica = servers
    assert not leases_on(master).view().is_read_only
    assert leases_on(replica).view().is_read_only
    promote(replica)
    assert not leases_on(replica).view().is_read_only


def test_an_epoch_of_an_earlier_version_is_completed_without_a_silence(
    servers: tuple[TcpRedis, TcpRedis],
) -> None:
    master, _ = servers
    leases = leases_on(master)
    leases.round(ANN, {})
    elapse(master.client(), "p", DURATION_S + 1)
    master.client().hdel("p:epoch", "replid")
    leases.round(ANN, {})
    assert leases.acquire(ANN, [ONE], FencingToken(0)).keys() == {ONE}
