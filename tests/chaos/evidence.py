"""What the checker judges: everything that was written down during a run, by whoever saw it.

Times are seconds of the machine's monotonic clock (`mono`), which all processes share. A holder is
`<name>_<ip>/<agent id>`, as in the header `X-Vmscaler-Holder`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.spans import Span

Line = Mapping[str, Any]
"""A journal's line as it stands there; what a violation shows."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What is promised, in seconds.

    Attributes:
        take_over_s: from a crash to the new lease.
        poll_s: from a crash to the next poll of each of its VMs; also between two polls without any.
        redis_back_s: from Redis' return to the next poll of every VM.
        most_left_out: share of the run; beyond it the run proves nothing.
    """

    lease_s: float
    period_s: float
    buckets: int
    redis_back_s: float = 30.0
    most_left_out: float = 0.5

    @property
    def take_over_s(self) -> float:
        return self.lease_s + 1.0

    @property
    def poll_s(self) -> float:
        return self.lease_s + 2 * self.period_s + 3.0


@dataclass(frozen=True, slots=True)
class Size:
    """CPU in milli-vCPU, memory in bytes."""

    cpu: int
    mem: int

    def is_below(self, other: Size) -> bool:
        """In at least one field."""
        return self.cpu < other.cpu or self.mem < other.mem


@dataclass(frozen=True, slots=True)
class Vm:
    """A VM as the fleet has it at the begin."""

    key: str
    bucket: str
    slot_bytes: int
    first: Size


@dataclass(frozen=True, slots=True)
class Effect:
    """A request to a receiver, and whether it took effect.

    Attributes:
        receiver: `platform`, `scheduler` or `monitor`.
        what: `asked` (a size), `granted` or `refused` (a permit), `told`, `approved`, `denied`, `connected`.
        token: None for a monitor, which is told none.
    """

    at: float
    receiver: str
    what: str
    vm: str
    bucket: str
    holder: str
    token: int | None
    is_applied: bool
    size: Size | None
    line: Line


@dataclass(frozen=True, slots=True)
class Poll:
    """Somebody read a VM's metrics page."""

    at: float
    vm: str
    holder: str


@dataclass(frozen=True, slots=True)
class LeaseChange:
    """From `at` on Redis showed this holder ("" for none) with this token."""

    at: float
    bucket: str
    holder: str
    token: int


@dataclass(frozen=True, slots=True)
class FaultDone:
    """A fault as it was carried out; `worker` is "" for Redis."""

    begin: float
    end: float
    kind: str
    worker: str
    text: str


@dataclass(frozen=True, slots=True)
class Life:
    """One process of a worker.

    Attributes:
        end: infinity while it lives.
        ending: `killed`, `terminated`, `crashed` (by itself), or "" while it lives.
    """

    worker: str
    begin: float
    end: float
    ending: str


@dataclass(frozen=True, slots=True)
class Gauge:
    """A number that must not grow.

    Attributes:
        who: process or kind of process, such as `workers`.
        what: `rss`, `threads`, `files`, `connections`, `keys`, `jobs`.
    """

    at: float
    who: str
    what: str
    value: float


@dataclass(frozen=True, slots=True)
class StatLine:
    """A worker's word on what became of a stat: see `stats.journal`."""

    at: float
    fate: str
    holder: str
    vm: str
    timestamp: int
    line: Line


@dataclass(frozen=True, slots=True)
class Pushed:
    """A stat that the harness sent; `status` 0: no answer came."""

    at: float
    vm: str
    timestamp: int
    worker: str
    status: int


@dataclass(frozen=True, slots=True)
class Counters:
    """What a worker said of itself at one moment."""

    at: float
    holder: str
    values: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Evidence:
    """A whole run.

    Attributes:
        begin: of the faults; everything was at work by then.
        end: of the quiet time after the faults.
        left_out: merged; Redis or all workers were down, or the harness itself stood still.
        outages: Redis' own, from its end to its first answer.
        gaps: lines that are missing in a journal, as text.
        still_queued: stats that waited in Redis at the end, as (VM, timestamp).
    """

    limits: Limits
    begin: float
    end: float
    vms: Mapping[str, Vm]
    effects: tuple[Effect, ...] = ()
    polls: tuple[Poll, ...] = ()
    leases: tuple[LeaseChange, ...] = ()
    faults: tuple[FaultDone, ...] = ()
    lives: tuple[Life, ...] = ()
    left_out: tuple[Span, ...] = ()
    outages: tuple[Span, ...] = ()
    gauges: tuple[Gauge, ...] = ()
    pushed: tuple[Pushed, ...] = ()
    stats: tuple[StatLine, ...] = ()
    counters: tuple[Counters, ...] = ()
    still_queued: frozenset[tuple[str, int]] = frozenset()
    gaps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that was broken, and the lines that prove it."""

    rule: str
    text: str
    lines: tuple[Line, ...] = ()


@dataclass(slots=True)
class Findings:
    """What the rules found: violations, and figures for the table."""

    violations: list[Violation] = field(default_factory=list)
    figures: dict[str, str] = field(default_factory=dict)

    def say(self, rule: str, text: str, *lines: Line) -> None:
        """Note a violation."""
        self.violations.append(Violation(rule, text, lines))
