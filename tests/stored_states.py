"""Keeps what this version leaves in Redis, so that later versions can be tested on it (docs/upgrading.md).

`python -m tests.stored_states` runs a demo of six VMs for some seconds, pauses one, observes another,
kills the workers, and writes all keys to `tests/data/states/v<RECORD_VERSION>/redis.json`. Run it once with
the code of each version, when `RECORD_VERSION` is raised.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import redis

from app.cli.demo_setup import make_directory
from app.services.record_version import RECORD_VERSION
from tests.system.test_demo_leaves_nothing import processes_of
from tests.system.test_scaling_survives import Demo

STATES = Path(__file__).parent / "data/states"


def versions() -> list[int]:
    """Versions of which something is stored."""
    return sorted(int(path.name.removeprefix("v")) for path in STATES.glob("v*"))


def stored(version: int) -> dict[str, dict[str, Any]]:
    """The keys of a version: type and value each, bytes as Latin-1 text."""
    kept: dict[str, dict[str, Any]] = json.loads((STATES / f"v{version}/redis.json").read_text())
    return kept


def load_into(client: redis.Redis, version: int, prefix: str) -> None:
    """Write them to a Redis, under another prefix than `vmscaler`."""
    for name, kept in stored(version).items():
        key = name.replace("vmscaler", prefix, 1) if name.startswith("vmscaler:") else f"{prefix}:{name}"
        value = kept["value"]
        match kept["type"]:
            case "string":
                client.set(key, _bytes(value))
            case "hash":
                client.hset(key, mapping={_bytes(field): _bytes(text) for field, text in value.items()})
            case "zset":
                client.zadd(key, {_bytes(member): score for member, score in value})
            case "list":
                client.rpush(key, *[_bytes(text) for text in value])
            case "stream":
                for entry, fields in value:
                    client.xadd(key, {_bytes(name): _bytes(text) for name, text in fields.items()}, id=entry)


def _keep(client: redis.Redis) -> dict[str, dict[str, Any]]:
    kept: dict[str, dict[str, Any]] = {}
    for key in sorted(client.scan_iter()):
        name, kind = _text(key), _text(client.type(key))
        if not name.startswith(("vmscaler", "autoscaler-bucket")) or ":beat" in name:
            continue
        match kind:
            case "string":
                value: Any = _text(client.get(key))
            case "hash":
                value = {_text(field): _text(text) for field, text in client.hgetall(key).items()}
            case "zset":
                value = [
                    [_text(member), score] for member, score in client.zrange(key, 0, -1, withscores=True)
                ]
            case "list":
                value = [_text(text) for text in client.lrange(key, 0, 20)]
            case "stream":
                value = [
                    [_text(entry), {_text(field): _text(text) for field, text in fields.items()}]
                    for entry, fields in client.xrevrange(key, count=20)[::-1]
                ]
            case _:
                continue
        kept[name] = {"type": kind, "value": value}
    return kept


def _text(raw: Any) -> str:
    return bytes(raw).decode("latin-1")


def _bytes(text: str) -> bytes:
    return text.encode("latin-1")


def main() -> None:
    """Run the demo and keep what it leaves."""
    runtime = make_directory({})
    demo = Demo(runtime, vms=6)
    try:
        demo.wait_until(lambda: demo.resizes() > 5, "VMs are scaled")
        first, second = sorted(vm["vm"] for vm in json.loads(demo.ask("vm", "list", "--json"))["vms"])[:2]
        demo.ask("pause", first, "--reason", "kept for later versions")
        demo.ask("vm", "set", second, "--mode", "observe")
        time.sleep(3)
        # The first one goes on sending polls to the buckets of the second, which nobody reads any more.
        for worker in ("worker2@%h", "worker1@%h"):
            os.kill(demo.pid_of(worker), signal.SIGKILL)
            time.sleep(1.2)
        (config,) = runtime.glob("*/config.json")
        client = redis.Redis.from_url(json.loads(config.read_text())["redis"]["url"])
        time.sleep(0.5)
        kept = _keep(client)
    finally:
        demo.process.send_signal(signal.SIGTERM)
        demo.process.wait(60)
        for pid in processes_of(runtime):
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(runtime, ignore_errors=True)
    place = STATES / f"v{RECORD_VERSION}"
    place.mkdir(parents=True, exist_ok=True)
    (place / "redis.json").write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
