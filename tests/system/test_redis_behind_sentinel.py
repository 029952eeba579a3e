"""A worker and a beat that find Redis through Sentinels: they follow the master."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.celery_process import CeleryProcess, write_config
from tests.fleet_process import until
from tests.redis_server import TcpRedis

BUCKET = "autoscaler-bucket-00-of-04"
PASSWORD, SENTINELS_PASSWORD = "s3cret-redis", "s3cret-sentinel"


@pytest.mark.timeout(240)
def test_work_goes_on_at_the_new_master_and_no_token_goes_down(tmp_path: Path) -> None:
    auth = {"requirepass": PASSWORD, "masterauth": PASSWORD}
    master, replica = TcpRedis(tmp_path / "a", auth), TcpRedis(tmp_path / "b", auth)
    replica.client(password=PASSWORD).replicaof("127.0.0.1", master.port)
    until(
        lambda: replica.client(password=PASSWORD).info("replication")["master_link_status"] == "up",
        "the replica follows",
    )
    sentinel = TcpRedis(tmp_path / "s", {"requirepass": SENTINELS_PASSWORD}, sentinel=_watching(master))
    until(lambda: bool(_ask(sentinel, "replicas")), "the Sentinel knows the replica")
    password, sentinels_password = tmp_path / "password", tmp_path / "sentinels-password"
    password.write_text(PASSWORD)
    sentinels_password.write_text(SENTINELS_PASSWORD)
    config = write_config(
        tmp_path / "config.json",
        {
            # The first one is not there.
            "url": f"sentinel://127.0.0.1:1,127.0.0.1:{sentinel.port}/0",
            "masterName": "main",
            "passwordFile": str(password),
            "sentinelPasswordFile": str(sentinels_password),
        },
    )
    worker, beat = CeleryProcess.worker(config, tmp_path), CeleryProcess.beat(config, tmp_path)
    try:
        until(lambda: _token(master) > 0 and _seq(master) > 0, f"work is done: {worker.log()[-2000:]}")
        token = _token(master)
        master.stop(signal.SIGKILL)
        until(lambda: _ask(sentinel, "master")[b"port"] == b"%d" % replica.port, "the replica is promoted")
        seq = _seq(replica)
        until(lambda: _seq(replica) > seq + 1, f"ticks count there: {worker.log()[-2000:]}")
        until(lambda: bool(_lease(replica).get(b"agent")), "the lease is held there")
        assert _token(replica) >= token
        assert worker.process.poll() is None
        assert beat.process.poll() is None
    finally:
        worker.stop()
        beat.stop()
        for server in (sentinel, replica, master):
            server.close()
    for log in (worker.log(), beat.log()):
        assert "s3cret" not in log
        assert "Traceback" not in log, log


def _watching(master: TcpRedis) -> str:
    return (
        f"sentinel monitor main 127.0.0.1 {master.port} 1\n"
        f"sentinel auth-pass main {PASSWORD}\n"
        "sentinel down-after-milliseconds main 1000\n"
        "sentinel failover-timeout main 10000\n"
    )


def _ask(sentinel: TcpRedis, what: str) -> Any:
    """`SENTINEL <what> main`; one server's facts by name."""
    client = sentinel.client(password=SENTINELS_PASSWORD, protocol=2)
    client.response_callbacks.clear()
    answer = client.execute_command("SENTINEL", what, "main")
    return dict(zip(answer[::2], answer[1::2], strict=True)) if what == "master" else answer


def _lease(server: TcpRedis) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = server.client(password=PASSWORD).hgetall(f"vmscaler:{{{BUCKET}}}:lease")
    return found


def _token(server: TcpRedis) -> int:
    return int(_lease(server).get(b"token", 0))


def _seq(server: TcpRedis) -> int:
    return int(server.client(password=PASSWORD).hget(f"vmscaler:{{{BUCKET}}}:seq", "seq") or 0)
