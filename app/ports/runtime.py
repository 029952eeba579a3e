"""Clocks, concurrency and the task queue, as services see them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NewType, Protocol

from app.core.model import Millis
from app.ports.store import BucketName
from app.ports.vm import VmKey

Monotonic = NewType("Monotonic", float)
"""Seconds on this process' monotonic clock; deadlines only, never stored."""


class Clock(Protocol):
    """The one place that reads clocks."""

    def wall_ms(self) -> Millis:
        """Unix time in milliseconds."""
        ...

    def monotonic(self) -> Monotonic:
        """Seconds that never go back, and count while the process is stopped."""
        ...


class Job(Protocol):
    """Something spawned."""

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for its end; whether it ended."""
        ...

    def cancel(self) -> None:
        """End it at its next wait."""
        ...


class Signal(Protocol):
    """An event to wait on."""

    def set(self) -> None:
        """Wake all who wait, now and later."""
        ...

    def clear(self) -> None:
        """Make it wait again."""
        ...

    def is_set(self) -> bool:
        """Whether it was set."""
        ...

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until set; whether it is."""
        ...


class Concurrency(Protocol):
    """Cooperative jobs: between two waits nothing else runs, so state needs no lock."""

    def spawn(self, name: str, run: Callable[[], None]) -> Job:
        """Start a job; an exception that leaves it is logged with its name."""
        ...

    def signal(self) -> Signal:
        """A new signal, not set."""
        ...

    def sleep(self, seconds: float) -> None:
        """Let others run for that long."""
        ...


SHARED_QUEUE = "vmscaler"
"""The task queue that every worker consumes beside those of its buckets."""


class QueueLengths(Protocol):
    """Says how much waits in task queues."""

    def waiting(self, names: Iterable[str]) -> int:
        """Messages in all these queues together, those included whose time is over.

        Raises:
            StoreUnavailable: no answer.
        """
        ...


class TaskQueue(Protocol):
    """Sends scaling tasks to the queue of a bucket."""

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
        """Send an `upscale` or `downscale` task; readable arguments for Flower.

        Raises:
            StoreUnavailable: the broker did not take it; nothing was sent.
        """
        ...
