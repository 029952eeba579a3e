"""Users of Redis for fleets that have a node's name after their prefix, as make-secrets makes them."""

from __future__ import annotations

import inspect
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis.backoff import NoBackoff
from redis.exceptions import NoPermissionError
from redis.retry import Retry

from app.adapters.redis_keys import RedisKeys
from tests.redis_server import TcpRedis

MAKE_SECRETS = Path(__file__).parents[2] / "compose" / "make-secrets"
BUCKET = "autoscaler-bucket-00-of-04"


class Server:
    """A Redis whose users are those of a node-bound deployment."""

    def __init__(self, directory: Path) -> None:
        self._secrets = directory / "secrets"
        subprocess.run([MAKE_SECRETS, self._secrets], check=True, capture_output=True, timeout=60)
        self.redis = TcpRedis(directory / "data", {"aclfile": str(self._secrets / "redis-users-per-node")})

    def of(self, role: str) -> Any:
        password = (self._secrets / f"redis-{role}").read_text().strip()
        return self.redis.client(username=role, password=password, retry=Retry(NoBackoff(), 0))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("per-node"))
    yield made
    made.redis.close()


def keys_of(prefix: str) -> list[str]:
    """Every key that this program has a name for."""
    found = []
    for name, make in inspect.getmembers(RedisKeys(prefix), inspect.ismethod):
        if not name.startswith("_"):
            found.append(
                make(*(BUCKET if each == "bucket" else "x" for each in inspect.signature(make).parameters))
            )
    return found


@pytest.mark.parametrize("node", ["node-1", "ip-10-0-0-1.eu-west-1.compute.internal"])
def test_a_worker_gets_at_the_keys_queues_and_channels_of_its_node(server: Server, node: str) -> None:
    client, prefix = server.of("worker"), f"vmscaler:{node}"
    for key in keys_of(prefix):
        client.exists(key)
    for queue in ("vmscaler", BUCKET, "_kombu.binding.celery.pidbox", "w@host.celery.pidbox"):
        client.exists(f"{prefix}:{queue}")
    listener = client.pubsub()
    listener.psubscribe(f"{prefix}:/0.celery.pidbox")
    assert listener.get_message(timeout=10)["type"] == "psubscribe"
    assert client.publish(f"{prefix}:/0.celeryev/worker.heartbeat", "x") == 0
    listener.close()


def test_a_beat_gives_the_rhythm_of_its_node(server: Server) -> None:
    client = server.of("beat")
    client.set("vmscaler:node-1:beat::lock", "x", px=1000)
    client.lpush("vmscaler:node-1:vmscaler", "x")
    with pytest.raises(NoPermissionError):
        client.lpush(f"vmscaler:node-1:{BUCKET}", "x")


@pytest.mark.parametrize("role", ["worker", "beat", "scheduler", "flower", "reader", "operator"])
@pytest.mark.parametrize("key", ["vmscaler", "vmscaler:buckets", BUCKET, "other:node-1:buckets", "x"])
def test_keys_of_others_stay_out_of_reach(server: Server, role: str, key: str) -> None:
    with pytest.raises(NoPermissionError):
        server.of(role).execute_command("TYPE", key)
