"""compose/redis/users.acl on a real Redis: what each role must be able to do, and what it must not."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest
import redis

from app.adapters.redis_connection import RedisConnection
from app.adapters.redis_intents import RedisIntents
from app.adapters.redis_keys import RedisKeys
from app.config.loading import build_settings
from app.ports.store import BucketName, Intent
from tests.redis_users import ROLES, RedisWithUsers

BUCKET = BucketName("autoscaler-bucket-00-of-16")
STATE = f"vmscaler:{{{BUCKET}}}:state"
DENIED = "has no permissions|not allowed|user executing the script can't"
FENCE = f"vmscaler:{{{BUCKET}}}:fence"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisWithUsers]:
    made = RedisWithUsers(tmp_path_factory.mktemp("redis"))
    yield made
    made.close()


def keys_of(bucket: BucketName) -> list[str]:
    """Every key that this program has a name for."""
    keys = RedisKeys()
    found = []
    for name, make in inspect.getmembers(keys, inspect.ismethod):
        if name.startswith("_"):
            continue
        arguments = [bucket if each == "bucket" else "x" for each in inspect.signature(make).parameters]
        found.append(make(*arguments))
    return found


REFUSED = [
    *((role, command) for role in ROLES for command in (
        "FLUSHALL", "FLUSHDB", "KEYS *", "CONFIG GET *", "CONFIG SET dir /tmp", "ACL LIST", "SHUTDOWN NOSAVE",
        "REPLICAOF other 6379", "DEBUG SLEEP 0", "MONITOR", "SAVE", "CLIENT KILL TYPE normal", "MODULE LIST",
        "GET another:programs:key", "SET another:programs:key 1", "PUBLISH another:channel x",
        "EVAL return(redis.call('SET','another:programs:key',1)) 0", "MIGRATE h 1 k 0 1",
    )),
    ("worker", "SET vmscaler:beat::lock x"),
    *((role, command) for role in ("beat", "scheduler", "flower") for command in (
        f"HSET {STATE} ns/vm x", f"HGETALL {STATE}", f"SET {FENCE} 9", f"DEL vmscaler:{{{BUCKET}}}:lease",
        f"HSET vmscaler:{{{BUCKET}}}:intents k v", "SET vmscaler:buckets 1", "DEL vmscaler:epoch",
        "HSET vmscaler:agents:drains a b", "ZADD vmscaler:agents:heartbeats 1 a",
        "HSET vmscaler:informants a b",
    )),
    *((role, command) for role in ("beat", "scheduler", "flower", "reader") for command in (
        f"LPUSH {BUCKET} x", "PUBLISH /0.celeryev/task.x y",
    ) if (role, command[:7]) != ("flower", "PUBLISH")),
    ("flower", "LPUSH vmscaler x"), ("flower", "RPUSH vmscaler x"), ("flower", "LRANGE vmscaler 0 -1"),
    ("flower", "SADD _kombu.binding.vmscaler x"), ("flower", "HGETALL vmscaler:agents"),
    ("flower", "SET vmscaler:beat::lock x"),
    ("scheduler", "LPUSH vmscaler x"), ("scheduler", "GET vmscaler:beat::lock"),
    ("reader", f"HSET {STATE} ns/vm x"), ("reader", f"HDEL {STATE} ns/vm"), ("reader", f"SET {FENCE} 9"),
    ("reader", f"DEL {STATE}"), ("reader", "HSET vmscaler:agents a b"), ("reader", "LPUSH vmscaler x"),
    ("reader", "PUBLISH /0.celery.pidbox x"), ("reader", "BRPOP vmscaler 1"),
    ("reader", f"EVAL return(redis.call('DEL',KEYS[1])) 1 {STATE}"), ("reader", f"RENAME {STATE} vmscaler:x"),
    ("operator", f"SET {FENCE} 9"), ("operator", "LPUSH vmscaler x"), ("operator", "SET vmscaler:buckets 1"),
    ("operator", "PUBLISH /0.celery.pidbox x"), ("operator", "GET vmscaler:beat::lock"),
    ("operator", f"EVAL return(redis.call('SET',KEYS[1],9)) 1 {FENCE}"),
    ("operator", f"RENAME {STATE} {FENCE}"),
]  # fmt: skip


@pytest.mark.parametrize(("role", "command"), REFUSED)
def test_a_role_is_refused_what_is_not_its_business(server: RedisWithUsers, role: str, command: str) -> None:
    with pytest.raises(redis.exceptions.ResponseError, match=DENIED):
        server.of(role).execute_command(*command.split())


def test_nobody_does_anything_without_user_and_password(server: RedisWithUsers) -> None:
    with pytest.raises(redis.exceptions.AuthenticationError):
        server.client().ping()
    for role in ROLES:
        with pytest.raises(redis.exceptions.AuthenticationError):
            server.client(username=role, password="").ping()
        with pytest.raises(redis.exceptions.AuthenticationError):
            server.client(username=role, password="a-secret-of-somebody-else").ping()


@pytest.mark.parametrize("role", ["worker", "reader", "operator"])
def test_the_key_patterns_know_every_key_that_this_program_has_a_name_for(
    server: RedisWithUsers, role: str
) -> None:
    client = server.of(role)
    assert STATE in keys_of(BUCKET)
    for key in keys_of(BUCKET):
        assert client.execute_command("EXISTS", key) == 0


def test_a_reader_sees_standing_intents_beside_one_that_has_ended(server: RedisWithUsers) -> None:
    keys = RedisKeys()
    stores = {
        role: RedisIntents(RedisConnection(build_settings({"redis": server.section(role)}, {}).redis), keys)
        for role in ("reader", "operator", "worker")
    }

    def an_intent(target: str, until_ms: int | None) -> Intent:
        return Intent(target, "pause", "", until_ms, "why", "me@here", 1, f"id-{target}")

    stores["operator"].put(BUCKET, an_intent("ns/standing", None))
    stores["operator"].put(BUCKET, an_intent("ns/ended", 1))
    assert [each.target for each in stores["reader"].list(BUCKET)] == ["ns/standing"]
    assert server.of("root").hlen(keys.intents(BUCKET)) == 2
    assert [each.target for each in stores["worker"].list(BUCKET)] == ["ns/standing"]
    assert server.of("root").hlen(keys.intents(BUCKET)) == 1
    assert stores["operator"].remove(BUCKET, "ns/standing", "pause")
