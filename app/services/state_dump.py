"""The state of a whole worker at one moment, as JSON, bounded in time (`spec/agent.md`, "State dump").

It runs beside the worker's loop, in a thread of its own (see `app.web.own_loop`), needs no lock, and asks
nobody anything: a runner that is stuck, or that blocks the whole loop, does not hold it up. Past its time it
gives what could be had: the other VMs are named, each with a `collectionError`. Nothing is logged here: a
log whose reader has stopped may be what everybody else waits for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TypeVar

from app.ports.runtime import Clock, Concurrency
from app.ports.store import BucketName
from app.ports.vm import VirtualMachine, VmKey
from app.services.pod_state import PodName, PodStates, uncollected_pod
from app.services.runner import Runner
from app.services.runner_life import Life
from app.services.scheduler_link import SchedulerLink
from app.services.supervisor import Supervisor

Found = TypeVar("Found")
Entry = tuple[PodName, VmKey, Life, Runner | None]

STRETCH_S = 0.002
"""So long VMs are collected, then the worker itself has its turn; longer stretches make its ticks late."""

SHARE = 0.8
"""Of the time: for collecting. The rest is for writing the answer."""

TRIES = 5
"""A table that grew while it was read is read again."""


class DumpTimedOut(Exception):
    """Nothing at all could be had in time; the text says why."""


class StateDump:
    """Collects.

    Args:
        timeout_s: for one dump, the wait for another one that is under way included.
        is_stopped: whether the worker is being stopped.
        build: what `buildInfo` says.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        scheduler: SchedulerLink,
        clock: Clock,
        is_stopped: Callable[[], bool],
        build: Mapping[str, str],
        *,
        timeout_s: float,
    ) -> None:
        self._supervisor = supervisor
        self._scheduler = scheduler
        self._clock = clock
        self._is_stopped = is_stopped
        self._build = dict(build)
        self._timeout_s = timeout_s
        self._states = PodStates(clock)
        self._is_busy = False

    def collect(
        self, concurrency: Concurrency, vm: VmKey | None = None, bucket: BucketName | None = None
    ) -> bytes:
        """The dump, as JSON.

        Args:
            concurrency: of the thread that this is called in.
            vm: only this VM.
            bucket: only the VMs of this bucket.

        Raises:
            DumpTimedOut: not one VM could be collected in time.
        """
        deadline = self._clock.monotonic() + self._timeout_s * SHARE
        while self._is_busy:
            if self._clock.monotonic() >= deadline:
                raise DumpTimedOut(f"another dump has been under way for {self._timeout_s:g} s")
            concurrency.sleep(0.02)
        self._is_busy = True
        try:
            return self._collect(concurrency, deadline, vm, bucket)
        finally:
            self._is_busy = False

    def _collect(
        self, concurrency: Concurrency, deadline: float, vm: VmKey | None, bucket: BucketName | None
    ) -> bytes:
        entries: list[Entry] = sorted(
            (
                (PodName.of(key, self._machine(key, runner)), key, life, runner)
                for key, life, runner in _settled(self._supervisor.lives)
                if self._is_wanted(key, vm, bucket)
            ),
            key=lambda entry: entry[:2],
        )
        pods: dict[VmKey, bytes] = {}
        done = concurrency.signal()

        def run() -> None:
            try:
                self._collect_pods(entries, pods, concurrency)
            finally:
                done.set()

        job = concurrency.spawn("state dump", run)
        if not done.wait(max(deadline - self._clock.monotonic(), 0.0)):
            job.cancel()
        if entries and not pods:
            raise DumpTimedOut(f"none of {len(entries)} VMs could be collected within {self._timeout_s:g} s")
        late = f"not collected within {self._timeout_s:g} s"
        listed = [pods.get(key) or _encode(uncollected_pod(name, late)) for name, key, _, _ in entries]
        head = _encode({"stopped": self._is_stopped(), "buildInfo": self._build})
        return head[:-1] + b',"pods":[' + b",".join(listed) + b"]}"

    def _collect_pods(self, entries: list[Entry], pods: dict[VmKey, bytes], concurrency: Concurrency) -> None:
        pause_at = self._clock.monotonic() + STRETCH_S
        scheduler, _ = self._scheduler.current()
        for name, key, life, runner in entries:
            pod = self._states.pod(
                name,
                life,
                runner,
                self._machine(key, runner),
                scheduler=scheduler,
                link=None if runner is None else self._supervisor.link(runner),
            )
            pods[key] = _encode(pod)
            if self._clock.monotonic() >= pause_at:
                concurrency.sleep(STRETCH_S)
                pause_at = self._clock.monotonic() + STRETCH_S

    def _machine(self, key: VmKey, runner: Runner | None) -> VirtualMachine | None:
        return self._supervisor.inventory.vms.get(key) if runner is None else runner.vm

    def _is_wanted(self, key: VmKey, vm: VmKey | None, bucket: BucketName | None) -> bool:
        if vm is not None and key != vm:
            return False
        return bucket is None or self._supervisor.bucket_of(key) == bucket


def _settled(read: Callable[[], Found]) -> Found:
    """What a read gives that may be disturbed by the thread that changes what is read."""
    for _ in range(TRIES - 1):
        try:
            return read()
        except RuntimeError:
            continue
    return read()


def _encode(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
