"""Looks at the fleet during a run: leases in Redis, what processes use, whether we ourselves keep time."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import mean

from app.adapters.redis_connection import RedisConnection
from app.adapters.redis_keys import RedisKeys
from app.bootstrap.stores import Stores
from app.config import load_settings
from app.errors import VmscalerError
from app.ports.sender import holder_text
from app.ports.store import Holder
from tests.chaos.evidence import Counters, Gauge, LeaseChange
from tests.chaos.notebook import Notebook
from tests.chaos.setup import Place
from tests.chaos.spans import Span

LEASES_EVERY_S = 0.25
GAUGES_EVERY_S = 2.0
BEAT_S = 0.1
LATE_S = 0.5
"""Our own heartbeat may be so late; beyond it the time is left out."""

_PAGE = os.sysconf("SC_PAGE_SIZE")


class Repeating:
    """A thread that does one thing again and again until `stop`."""

    def __init__(self, name: str, action: Callable[[], None], every_s: float) -> None:
        self._action = action
        self._every_s = every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            self._action()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(15)


class Heartbeat:
    """Notes each time that this process did not get to run."""

    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook
        self._last = time.monotonic()

    def beat(self) -> None:
        """Called every `BEAT_S`."""
        now = time.monotonic()
        if now - self._last > BEAT_S + LATE_S:
            self._notebook.add(Span(self._last, now, "the harness stood still"))
        self._last = now


class LeaseWatch:
    """Notes each change of a lease's holder, and what workers say of themselves, past the proxies."""

    def __init__(self, place: Place, notebook: Notebook) -> None:
        settings = load_settings(str(place.config), place.environment(place.config))
        self.stores = Stores(settings)
        self._redis = RedisConnection(f"unix://{place.redis_socket}")
        self._keys = RedisKeys(settings.key_prefix)
        self._notebook = notebook
        self._known: dict[str, tuple[str, int]] = {}
        self._looks = 0
        self.held: Mapping[str, str] = {}
        self.addresses: dict[str, str] = {}

    def look(self) -> None:
        """One look; a Redis that is away is left alone."""
        try:
            view = self.stores.leases.view()
            now = time.monotonic()
            self._looks += 1
            if self._looks % 4 == 0:
                self._read_agents()
        except VmscalerError:
            return
        for bucket, row in view.leases.items():
            holder = "" if row.holder is None else holder_text(row.holder)
            if self._known.get(bucket) != (holder, row.token):
                self._known[bucket] = (holder, row.token)
                self._notebook.add(LeaseChange(now, bucket, holder, row.token))
        self.held = {bucket: holder for bucket, (holder, _) in self._known.items()}

    def queued_stats(self) -> frozenset[tuple[str, int]]:
        """Stats that wait in Redis for the owner of their bucket, as (VM, timestamp)."""
        found = set()
        for name in self.stores.names:
            for raw in self._redis.execute("LRANGE", self._keys.stats(name), 0, -1):
                stat = json.loads(raw)
                found.add((str(stat["key"]), int(stat["timestamp"])))
        return frozenset(found)

    def _read_agents(self) -> None:
        now, jobs = time.monotonic(), 0
        for record in self.stores.agents.list():
            facts = json.loads(record.facts)
            if facts.get("kind") != "worker":
                continue
            holder = holder_text(Holder(facts["identity"], facts["agent_id"]))
            counters = {name: value for name, value in facts["counters"].items() if isinstance(value, int)}
            self._notebook.add(Counters(now, holder, counters))
            jobs += counters.get("jobs", 0)
            if facts.get("address"):
                self.addresses[facts["name"]] = facts["address"]
        self._notebook.add(Gauge(now, "all workers", "jobs", jobs))


class GaugeWatch:
    """Notes what may not grow; `pids` is asked anew each time, by name."""

    def __init__(self, place: Place, notebook: Notebook, pids: Callable[[], Mapping[str, int]]) -> None:
        self._notebook = notebook
        self._pids = pids
        self._redis = RedisConnection(f"unix://{place.redis_socket}")
        self._waited: dict[int, tuple[float, float]] = {}

    def look(self) -> None:
        """One look at all processes and at Redis."""
        now = time.monotonic()
        workers: dict[str, list[float]] = defaultdict(list)
        for name, pid in self._pids().items():
            for what, value in process_gauges(pid).items():
                if name.startswith("worker"):
                    workers[what].append(value)
                else:
                    self._notebook.add(Gauge(now, name, what, value))
            if name.startswith("worker"):
                self._look_at_waiting(now, pid)
        for what, values in workers.items():
            if what == "files":
                # Most of them belong to VMs, which move from worker to worker.
                self._notebook.add(Gauge(now, "all workers", what, sum(values)))
            else:
                self._notebook.add(Gauge(now, "a worker", what, mean(values)))
        try:
            keys = int(self._redis.execute("DBSIZE"))
            clients = bytes(self._redis.execute("INFO", "clients")).decode()
        except VmscalerError:
            return
        self._notebook.add(Gauge(now, "redis", "keys", keys))
        facts = dict(line.split(":", 1) for line in clients.splitlines() if ":" in line)
        self._notebook.add(Gauge(now, "redis", "connections", float(facts["connected_clients"])))

    def _look_at_waiting(self, now: float, pid: int) -> None:
        """Note which share of the time since the last look a worker has waited for a CPU."""
        waited = waited_for_cpu(pid)
        if waited is None:
            return
        before = self._waited.get(pid)
        self._waited[pid] = now, waited
        if before is not None:
            share = (waited - before[1]) / max(now - before[0], 0.001)
            self._notebook.add(Gauge(now, "a worker", "cpu wait", min(max(share, 0.0), 1.0)))


def waited_for_cpu(pid: int) -> float | None:
    """Seconds that a process' first thread was ready to run and did not; None where that can't be read."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return None


def process_gauges(pid: int) -> dict[str, float]:
    """Memory, threads and open files of a process; nothing of one that has gone."""
    place = Path(f"/proc/{pid}")
    try:
        pages = int((place / "statm").read_text().split()[1])
        threads = int((place / "stat").read_text().rpartition(")")[2].split()[17])
        files = len(list((place / "fd").iterdir()))
    except (OSError, IndexError):
        return {}
    return {"rss": float(pages * _PAGE), "threads": float(threads), "files": float(files)}
