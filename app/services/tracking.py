"""What a runner keeps track of beside the core's state: its resize, its polls, its counters."""

from __future__ import annotations

from dataclasses import dataclass

from app.core.model import Millis
from app.core.resources import Resources
from app.ports.own_metrics import APPLIED, LATENCY
from app.ports.runtime import Monotonic
from app.ports.tracing import past_span
from app.ports.vm import VmKey

WATCH_LAG_MS = 5_000
"""How late a platform's watch may tell of a size that it has accepted."""


@dataclass(slots=True)
class Operation:
    """A resize that the platform has accepted, or is being asked for.

    Attributes:
        since_ms: when the platform was asked; `decided_ms`: when the change was decided.
        deadline: until then the observed size should be `target`.
        is_accepted: the platform said yes; only the observed size says that it was done.
        is_overdue: shown as *not applied*.
        trace: the span in which it was asked for; "" where none was made.
    """

    kind: str
    origin: Resources
    target: Resources
    why: str
    since_ms: Millis
    decided_ms: Millis
    deadline: Monotonic
    is_accepted: bool = False
    is_overdue: bool = False
    trace: str = ""

    def end_trace(self, key: VmKey, now: Millis, problem: str = "") -> None:
        """Its trace and the metrics tell how long it took to be observed, or that it was not."""
        size = {"cpu_m": self.target.cpu, "mem_slots": self.target.mem}
        times_ms = self.since_ms, now
        end = "not_applied" if problem else "observed"
        APPLIED.observe((now - self.since_ms) / 1000, self.kind, end)
        LATENCY.observe((now - self.decided_ms) / 1000, self.kind, end)
        past_span(
            "wait until observed", parent=self.trace, times_ms=times_ms, problem=problem, vm=key, **size
        )


@dataclass(frozen=True, slots=True)
class Awaited:
    """A resize that an earlier owner began and did not see the end of: it may still come.

    Attributes:
        until_ms: then it counts as not applied.
    """

    target: Resources
    since_ms: Millis
    until_ms: Millis

    def may_still_change(self, observed: Resources, asked: Resources, now: Millis) -> bool:
        """Whether the VM's real size may become another one without anybody asking for it again.

        Args:
            asked: what the platform says was asked of it last; it may be late in saying so.
        """
        if observed == self.target or now >= self.until_ms:
            return False
        return asked != observed or now < self.since_ms + WATCH_LAG_MS


@dataclass(slots=True)
class Sampling:
    """How polling this VM goes.

    Attributes:
        at_ms: time of the last good sample.
        tried_ms: time of the last try.
        error: why the last try gave no sample; None if it did.
        failures: tries without a sample since the last good one.
    """

    at_ms: Millis | None = None
    tried_ms: Millis | None = None
    error: str | None = None
    failures: int = 0


@dataclass(slots=True)
class Failing:
    """Resizes that have failed one after the other; over with the first that is observed."""

    since_ms: Millis
    times: int = 0
    why: str = ""


@dataclass(slots=True)
class Counters:
    """Since the VM is known; kept in its record across owners."""

    polls: int = 0
    poll_failures: int = 0
    upscales: int = 0
    downscales: int = 0
    denied: int = 0
    failed: int = 0
    not_applied: int = 0
