"""What a caller is told when Redis is away, silent, or does not want us."""

from __future__ import annotations

import os
import signal
import socket

import pytest
import redis

from app.adapters.embedded_redis import EmbeddedRedis
from app.adapters.redis_connection import RedisConnection, load_script
from app.adapters.redis_keys import RedisKeys
from app.errors import ConfigurationError, StoreUnavailable


def test_a_script_that_redis_has_forgotten_is_sent_again(own_redis: EmbeddedRedis) -> None:
    connection, keys = RedisConnection(own_redis.url), RedisKeys()
    script = load_script("raise_fence")
    assert connection.run(script, [keys.fence("b")], 7) == 0
    connection.execute("SCRIPT", "FLUSH")
    assert connection.run(script, [keys.fence("b")], 6) == 7


def test_a_server_that_stopped_and_came_back_is_used_again(own_redis: EmbeddedRedis) -> None:
    from app.adapters.embedded_redis import start_embedded

    connection = RedisConnection(own_redis.url)
    connection.execute("SET", "k", "v")
    own_redis.stop()
    with pytest.raises(StoreUnavailable):
        connection.execute("GET", "k")
    again = start_embedded(own_redis.socket_path.parent)
    try:
        assert connection.execute("GET", "k") == b"v"
    finally:
        again.stop()


def test_a_silent_server_costs_no_more_than_the_time_limit(own_redis: EmbeddedRedis) -> None:
    connection = RedisConnection(own_redis.url, socket_timeout_s=0.2)
    connection.execute("PING")
    os.kill(own_redis.process.pid, signal.SIGSTOP)
    try:
        with pytest.raises(StoreUnavailable):
            connection.execute("GET", "k")
        with pytest.raises(StoreUnavailable):
            connection.execute_all([("GET", "k"), ("GET", "l")])
    finally:
        os.kill(own_redis.process.pid, signal.SIGCONT)
    assert connection.execute("PING") == b"PONG"


def test_no_password_is_in_any_error(own_redis: EmbeddedRedis) -> None:
    redis.Redis.from_url(own_redis.url).config_set("requirepass", "right")
    wrong = own_redis.url.replace("unix://", "unix://:s3cret@")
    with pytest.raises(StoreUnavailable) as refused:
        RedisConnection(wrong).execute("PING")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(StoreUnavailable) as unreachable:
            RedisConnection(f"redis://user:s3cret@127.0.0.1:{port}/0").execute("PING")
    with pytest.raises(ConfigurationError) as unreadable:
        RedisConnection("redis://user:s3cret@127.0.0.1:99999999/0")
    for error in (refused, unreachable, unreadable):
        assert "s3cret" not in str(error.value)
    assert f"127.0.0.1:{port}" in str(unreachable.value)


def test_a_refused_command_is_told_without_its_values(own_redis: EmbeddedRedis) -> None:
    connection = RedisConnection(own_redis.url)
    connection.execute("SET", "k", "v")
    with pytest.raises(StoreUnavailable, match="WRONGTYPE") as refused:
        connection.execute_all([("HSET", "k", "f", "a whole record")])
    assert "a whole record" not in str(refused.value)
