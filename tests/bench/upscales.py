"""How long a guest's request for memory takes to reach the scheduler, through a real worker.

Websocket, core, Redis, the scaling task over the broker and back, the commit, HTTP: all of it, on loopback.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from statistics import median

from app.adapters.embedded_redis import start_embedded
from app.bootstrap.stores import Stores
from app.config import load_settings
from app.services.announcing import Announcement

VMS = 40
LONGEST_S = 60.0
BUDGET_S = 0.1
LOG_CHARACTERS = 4000
"""Of the worker's log, shown when the measurement has failed."""


def measure_upscales(count: int = VMS) -> None:
    """Print the median and the worst, for VMs at rest and in the middle of a denied downscale's cooldown."""
    with tempfile.TemporaryDirectory(prefix="vmscaler-bench-") as name:
        directory = Path(name)
        redis = start_embedded(directory / "redis")
        peer = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.upscale_peer", str(count), str(LONGEST_S)],
            stdout=subprocess.PIPE,
            text=True,
        )
        children: list[subprocess.Popen[bytes]] = []
        stop = threading.Event()
        try:
            assert peer.stdout is not None
            url = f"http://127.0.0.1:{peer.stdout.readline().strip()}"
            config = directory / "config.json"
            config.write_text(
                json.dumps({"redis": {"url": redis.url}, "platform": {"url": url}, "web": {"port": 0}})
            )
            environment = {**os.environ, "CONFIG_PATH": str(config)}
            announcing = threading.Thread(target=_announce, args=(config, url, stop))
            announcing.start()
            children = [_start(role, environment, directory) for role in ("worker", "beat")]
            found = json.loads(peer.stdout.readline())
        finally:
            stop.set()
            for child in children:
                child.send_signal(signal.SIGTERM)
            for child in children:
                child.wait(30)
            peer.kill()
            peer.wait()
            announcing.join()
            redis.stop()
        _report(found, count)
        if any(len(seconds) < count // 2 for seconds in found.values()):
            log = (directory / "worker.log").read_text("utf-8", "replace")
            raise SystemExit(f"not all VMs were heard; the worker's log ends with:\n{log[-LOG_CHARACTERS:]}")


def _announce(config: Path, url: str, stop: threading.Event) -> None:
    """The peer is the scheduler, too: say so where workers look."""
    registry = Stores(load_settings(str(config), {})).agents
    facts = {"kind": "scheduler", "name": "bench", "uid": "bench", "url": url, "started_ms": 1}
    Announcement(registry, "bench", lambda: facts).run(stop)


def _start(role: str, environment: dict[str, str], directory: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "celery", "-A", "workers", role, "-l", "warning"]
    if role == "worker":
        command += ["-P", "gevent", "-n", "worker1@%h"]
    with (directory / f"{role}.log").open("wb") as log:
        return subprocess.Popen(command, env=environment, cwd=directory, stdout=log, stderr=log)


def _report(found: dict[str, list[float]], count: int) -> None:
    print(
        f"A guest's request for memory until the scheduler is asked (median at most {BUDGET_S * 1000:g} ms)"
    )
    for where, seconds in found.items():
        if seconds:
            middle, worst = median(seconds) * 1000, max(seconds) * 1000
            print(f"  {where:<9} {middle:5.1f} ms, worst {worst:5.1f} ms, {len(seconds)} of {count // 2} VMs")
        else:
            print(f"  {where:<9} none of {count // 2} VMs")
    print()


if __name__ == "__main__":
    measure_upscales()
