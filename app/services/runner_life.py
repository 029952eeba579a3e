"""How often a VM's runner has begun, and how it ended (`spec/agent.md`, "Runner").

A VM has one life for as long as its bucket is held here; each runner that begins for it is a run of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from app.core.model import Millis
from app.errors import InternalError, VmscalerError

MAX_PREVIOUS = 10
"""Ends that are remembered; one run ends at most every 5 s, so that they tell of a minute or more."""

MAX_ERROR = 400
"""Characters of an error; it may hold a peer's words."""


class ExitKind(StrEnum):
    """How a run ended."""

    PANICKED = "panicked"
    """Our own code failed: a bug."""

    ERRORED = "errored"
    """An error that we know of, which leaves this VM without a runner."""

    CANCELED = "canceled"
    """It was ended: its VM is gone, or its bucket. Not begun again."""


@dataclass(frozen=True, slots=True)
class EndState:
    """The end of a run; `at_ms` is Unix time, `error` is empty for one that was canceled."""

    kind: ExitKind
    error: str
    at_ms: Millis


@dataclass(slots=True)
class RunnerCounts:
    """Over all VMs of this worker, since it started.

    Attributes:
        starts: runs that began.
        restarts: those of them that followed a failed one.
        panics: runs that ended by a bug of ours.
        errors: runs that ended by an error that we know of.
    """

    starts: int = 0
    restarts: int = 0
    panics: int = 0
    errors: int = 0

    def failed(self, kind: ExitKind) -> None:
        """A run has failed."""
        if kind is ExitKind.PANICKED:
            self.panics += 1
        else:
            self.errors += 1


@dataclass(slots=True)
class Life:
    """One VM's runs.

    Attributes:
        started_ms: when the present run began.
        end: how it ended; None while it runs.
        previous: ends of the runs before, the oldest first, at most `MAX_PREVIOUS`.
        failures: runs that have failed, those included that `previous` has forgotten.
        uid: the platform's; another VM of the same name has a life of its own.
    """

    started_ms: Millis
    uid: str
    end: EndState | None = None
    previous: list[EndState] = field(default_factory=list)
    failures: int = 0

    def begin(self, now: Millis) -> EndState | None:
        """A run begins; how the one before ended, None for the first."""
        self.started_ms = now
        before, self.end = self.end, None
        if before is not None:
            self.previous = [*self.previous, before][-MAX_PREVIOUS:]
        return before

    def fail(self, err: Exception, now: Millis) -> bool:
        """The run has failed; whether it did so for another reason than the run before."""
        self.end = EndState(kind_of(err), f"{type(err).__name__}: {err}"[:MAX_ERROR], now)
        self.failures += 1
        before = self.previous[-1] if self.previous else None
        return before is None or (before.kind, before.error) != (self.end.kind, self.end.error)

    def cancel(self, now: Millis) -> None:
        """The run is ended, unless it has ended by itself."""
        if self.end is None:
            self.end = EndState(ExitKind.CANCELED, "", now)


def kind_of(err: Exception) -> ExitKind:
    """Whether a failure is a bug of ours, or an error that was raised on purpose."""
    is_known = isinstance(err, VmscalerError) and not isinstance(err, InternalError)
    return ExitKind.ERRORED if is_known else ExitKind.PANICKED
