"""What services count: the closed word for how a request ended, and by how much a size was to change."""

from __future__ import annotations

from app.core.resources import Resources
from app.errors import (
    InvalidInput,
    OwnershipLost,
    PeerRefused,
    PeerTimedOut,
    PeerUnreachable,
)
from app.ports.agent_metrics import CODES
from app.protocols.metric_families import OTHER, Counter

MIB = 2**20


def outcome_of(err: Exception | None) -> str:
    """The end of a request as a label's value, one of `OUTCOMES`; its text stays in the log."""
    match err:
        case None:
            return "ok"
        case PeerTimedOut():
            return "timeout"
        case PeerUnreachable():
            return "unreachable"
        case PeerRefused():
            return "refused"
        case InvalidInput():
            return "unreadable"
        case OwnershipLost():
            return "lease_lost"
    return OTHER


def code_of(err: Exception | None) -> str:
    """The same for a permit, where the scheduler's status says more: one of `CODES`."""
    if err is None:
        return "200"
    if isinstance(err, PeerRefused) and str(err.code) in CODES:
        return str(err.code)
    return outcome_of(err)


def count_change(
    counters: tuple[Counter, Counter], origin: Resources | None, target: Resources, slot_bytes: int
) -> None:
    """Add a change of size to the counters of CPUs and of MiB; nothing where it is not known from what."""
    if origin is None:
        return
    cpu, memory = counters
    _add(cpu, (target.cpu - origin.cpu) / 1000)
    _add(memory, (target.mem - origin.mem) * slot_bytes / MIB)


def _add(counter: Counter, difference: float) -> None:
    counter.add("inc" if difference > 0 else "dec", by=abs(difference))
