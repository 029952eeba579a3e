"""A scheduler, a monitor and a task queue in memory, for tests of a worker's services."""

from __future__ import annotations

from collections.abc import Callable

import gevent

from app.core.resources import Resources, resources
from app.errors import PeerError, PeerUnreachable, StoreUnavailable
from app.ports.peers import (
    DownscaleAnswer,
    MonitorCallbacks,
    PermitAnswer,
    PermitQuestion,
    SchedulerInfo,
)
from app.ports.store import BucketName
from app.ports.tracing import current_span, span
from app.ports.vm import Address, VmKey

UNIT = resources(250, 1)


class FakeScheduler:
    """`SchedulerClient` and `SchedulerWatch`: grants up to `limit`; `problem` makes each question fail."""

    def __init__(self, log: list[str]) -> None:
        self._log = log
        self.limit = resources(100_000, 100_000)
        self.problem: PeerError | None = None
        self.info: SchedulerInfo | None = SchedulerInfo("scheduler", "uid-1", "http://127.0.0.1:1")
        self.questions: list[PermitQuestion] = []
        self.is_migrating = False
        self._open = 0
        self.most_at_once = 0

    def current(self) -> SchedulerInfo | None:
        return self.info

    def ask(
        self, scheduler: SchedulerInfo, question: PermitQuestion, *, timeout_s: float | None
    ) -> PermitAnswer:
        self.questions.append(question)
        self._open += 1
        self.most_at_once = max(self.most_at_once, self._open)
        gevent.sleep(0)
        self._open -= 1
        if self.problem is not None:
            raise self.problem
        self._log.append(f"permit {question.target.cpu}/{question.target.mem}")
        use = question.vm.real_size
        return PermitAnswer(question.target.min(self.limit.max(use)), UNIT, self.is_migrating)


class FakeMonitor:
    """One VM's monitor; `answer` decides on downscales, `problem` makes each call fail."""

    def __init__(self, log: list[str]) -> None:
        self._log = log
        self.answer = DownscaleAnswer(True, "")
        self.problem: PeerError | None = None
        self.before_answer: Callable[[], None] = lambda: None
        self.callbacks: MonitorCallbacks | None = None
        self.exited = False
        self.waiters_size = 0
        self.connections = 0
        self._dialled = 0
        self.most_at_once = 0

    def connect(self, address: Address, callbacks: MonitorCallbacks, *, timeout_s: float) -> FakeMonitor:
        self._dialled += 1
        self.most_at_once = max(self.most_at_once, self._dialled)
        gevent.sleep(0)
        self._dialled -= 1
        if self.exited and self.connections == 0:
            raise PeerUnreachable("monitor", "no connection")
        self.connections += 1
        self.exited = False
        self.callbacks = callbacks
        return self

    def serve(self, is_wanted: Callable[[], bool]) -> None:
        while not self.exited and is_wanted():
            gevent.sleep(0.002)
        self.exited = True

    def downscale(self, target: Resources, slot_bytes: int, *, timeout_s: float) -> DownscaleAnswer:
        self._answer(f"monitor down {target.cpu}/{target.mem}")
        return self.answer

    def upscale(self, granted: Resources, slot_bytes: int, *, timeout_s: float) -> None:
        self._answer(f"monitor up {granted.cpu}/{granted.mem}")

    def close(self) -> None:
        self.exited = True

    def die(self) -> None:
        """The connection ends from the other side."""
        self.exited = True
        assert self.callbacks is not None
        self.callbacks.on_exit("closed by the peer")

    def _answer(self, what: str) -> None:
        gevent.sleep(0)
        self.before_answer()
        if self.problem is not None:
            raise self.problem
        self._log.append(what)


MOST_TASKS = 2_000
"""More than a test needs: a worker that was left behind must not go round for ever beside the next ones."""


class FakeTaskQueue:
    """Runs each task in a greenlet of its own; `is_away` refuses them, `is_lossy` forgets them."""

    def __init__(self) -> None:
        self.run: Callable[[str, BucketName, VmKey], object] = lambda kind, bucket, key: None
        self.sent: list[tuple[str, str]] = []
        self.is_away = False
        self.is_lossy = False

    def send_scaling(
        self,
        kind: str,
        bucket: BucketName,
        key: VmKey,
        *,
        size_from: str,
        size_to: str,
        reason: str,
        expires_s: float,
    ) -> None:
        gevent.sleep(0)
        if self.is_away:
            raise StoreUnavailable("broker", "no answer")
        self.sent.append((kind, reason))
        if not self.is_lossy and len(self.sent) <= MOST_TASKS:
            gevent.spawn(self._run, current_span(), kind, bucket, key)

    def _run(self, carried: str, kind: str, bucket: BucketName, key: VmKey) -> None:
        """As a worker does: in the span that the message carries."""
        with span(f"vmscaler.{kind}", parent=carried):
            self.run(kind, bucket, key)
