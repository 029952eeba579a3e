"""The state dumps of all workers of a fleet, found through the registry and asked at the same time.

Bounded in time and size; a worker that did not answer is named with the reason, and so is one that serves no
dump. A VM may be told of by two workers while its bucket moves: both are shown.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from app.errors import InvalidInput, PeerError
from app.ports.pages import PageReader
from app.ports.runtime import Clock, Concurrency
from app.ports.store import BucketName
from app.ports.vm import VmKey
from app.protocols.bounded_json import read_json_object
from app.protocols.printable import printable
from app.services.agent_facts import AgentRow

AT_ONCE = 16
"""Workers that are asked at the same time."""

MAX_DUMP_BYTES = 64 << 20
"""Of one worker; 3 KB a VM, so more VMs than any worker has."""

MAX_FLEET_BYTES = 512 << 20
"""Of all dumps together; what comes later is left out, and named."""

DUMP_KEYS = ("stopped", "buildInfo", "pods")
"""What a worker's dump has; anything else in an answer is left out."""

NO_DUMP = (
    "it serves no state dump: there is no section dumpState in its configuration, or it is older than that"
)


@dataclass(frozen=True, slots=True)
class WorkerDump:
    """What one worker told."""

    agent: AgentRow
    dump: dict[str, object]


@dataclass(slots=True)
class FleetDump:
    """All that was told.

    Attributes:
        unanswered: workers that told nothing, and why.
    """

    workers: list[WorkerDump] = field(default_factory=list)
    unanswered: list[tuple[AgentRow, str]] = field(default_factory=list)

    @property
    def vms(self) -> int:
        """VMs that were told of, twice where two workers have one."""
        return sum(len(_pods(each.dump)) for each in self.workers)

    def shape(self, taken_at: str) -> dict[str, object]:
        """As JSON; `pods` are as each worker told them."""
        return {
            "takenAt": taken_at,
            "workers": [
                {**_agent_json(each.agent), **{name: each.dump.get(name) for name in DUMP_KEYS}}
                for each in self.workers
            ],
            "unanswered": [{**_agent_json(row), "problem": why} for row, why in self.unanswered],
        }


class DumpGathering:
    """Asks the workers."""

    def __init__(self, pages: PageReader, clock: Clock, concurrency: Concurrency) -> None:
        self._pages = pages
        self._clock = clock
        self._concurrency = concurrency

    def gather(
        self,
        agents: Sequence[AgentRow],
        *,
        timeout_s: float,
        vm: VmKey | None = None,
        bucket: BucketName | None = None,
    ) -> FleetDump:
        """The dumps of the workers among these processes, by name.

        Args:
            timeout_s: for all of them together; those that have not answered by then are named.
            vm: only this VM.
            bucket: only the VMs of this bucket.
        """
        workers = sorted(
            (row for row in agents if row.kind == "worker"), key=lambda row: (row.name, row.agent_id)
        )
        asking = _Asking(self._pages, self._clock, _path(vm, bucket), self._clock.monotonic() + timeout_s)
        asking.todo.extend(row for row in workers if row.dump_address is not None)
        jobs = [
            self._concurrency.spawn(f"state dump {number}", asking.run)
            for number in range(min(AT_ONCE, len(asking.todo)))
        ]
        for job in jobs:
            job.join(max(asking.deadline - self._clock.monotonic(), 0.0))
        found, problems = asking.end()
        fleet = FleetDump()
        for row in workers:
            if row.agent_id in found:
                fleet.workers.append(WorkerDump(row, found[row.agent_id]))
            elif row.dump_address is None:
                fleet.unanswered.append((row, NO_DUMP))
            else:
                late = f"no answer within {timeout_s:g} s"
                fleet.unanswered.append((row, problems.get(row.agent_id, late)))
        return fleet


class _Asking:
    """What the jobs of one gathering share; those that are late find it closed."""

    def __init__(self, pages: PageReader, clock: Clock, path: str, deadline: float) -> None:
        self._pages = pages
        self._clock = clock
        self._path = path
        self.deadline = deadline
        self.todo: deque[AgentRow] = deque()
        # Guards the rest; no I/O under it.
        self._lock = threading.Lock()
        self._found: dict[str, dict[str, object]] = {}
        self._problems: dict[str, str] = {}
        self._bytes_left = MAX_FLEET_BYTES
        self._is_over = False

    def run(self) -> None:
        """Ask one worker after the other, until none is left or the time is over."""
        while True:
            try:
                row = self.todo.popleft()
            except IndexError:
                return
            left_s = self.deadline - self._clock.monotonic()
            if left_s <= 0:
                return
            self._ask(row, left_s)

    def end(self) -> tuple[dict[str, dict[str, object]], dict[str, str]]:
        """Dumps and problems by agent id, as they are now and stay."""
        with self._lock:
            self._is_over = True
            return self._found, self._problems

    def _ask(self, row: AgentRow, left_s: float) -> None:
        try:
            body = self._pages.read(
                row.kind, row.dump_address or "", self._path, timeout_s=left_s, max_bytes=MAX_DUMP_BYTES
            )
        except PeerError as err:
            self._note(row, err.problem)
            return
        with self._lock:
            self._bytes_left -= len(body)
            is_too_much = self._bytes_left < 0
        if is_too_much:
            self._note(row, f"left out: all dumps together are above {MAX_FLEET_BYTES >> 20} MiB")
            return
        dump = _read_dump(body)
        if dump is None:
            self._note(row, "its answer is no state dump")
            return
        with self._lock:
            if not self._is_over:
                self._found[row.agent_id] = dump

    def _note(self, row: AgentRow, problem: str) -> None:
        with self._lock:
            if not self._is_over:
                self._problems[row.agent_id] = printable(problem)


def _path(vm: VmKey | None, bucket: BucketName | None) -> str:
    wanted = {"vm": vm, "bucket": bucket}
    query = "&".join(f"{name}={quote(value)}" for name, value in wanted.items() if value is not None)
    return f"/?{query}" if query else "/"


def _read_dump(body: bytes) -> dict[str, object] | None:
    try:
        dump = read_json_object(body, max_bytes=MAX_DUMP_BYTES, where="state dump")
    except InvalidInput:
        return None
    return dump if isinstance(dump.get("pods"), list) else None


def _pods(dump: dict[str, object]) -> list[object]:
    pods = dump["pods"]
    return pods if isinstance(pods, list) else []


def _agent_json(row: AgentRow) -> dict[str, object]:
    return {
        "worker": row.name,
        "identity": row.identity,
        "agentID": row.agent_id,
        "address": row.dump_address,
        "version": row.version,
    }
