"""A VM's meter: CPUs noted from time to time, what was used in between, and what each sink was told of it.

Source: `spec/agent.md`, "Billing". What must be true:

- Only integers are added: milli-CPU × milliseconds, and milliseconds. Rounding happens once, where an event
  is made, and of the sums since the meter began: whatever the windows are, all events together differ from
  what was used by at most half a second.
- A slice lies between two notes and counts the smaller of their CPUs. Slices follow each other on the meter's
  own time, which never goes back, so no second is in two of them.
- A gap that is too long is in no slice: nobody has looked meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

CPU_SECOND = 1_000_000
"""Milli-CPU × milliseconds in a CPU-second."""

ACTIVE_SECOND = 1_000
"""Milliseconds in a second."""


class MeterId(NamedTuple):
    """What is billed for itself: a VM that was made anew, or got another endpoint, is another one.

    Attributes:
        key: `namespace/name`.
    """

    key: str
    uid: str
    endpoint_id: str


class Told(NamedTuple):
    """How far a sink's events have come: the sums and the time at the end of its last window.

    Attributes:
        at_ms: Unix milliseconds; the next window begins there.
        cpu: milli-CPU × milliseconds.
        active: milliseconds.
    """

    at_ms: int
    cpu: int
    active: int


class Usage(NamedTuple):
    """What a window holds, in whole seconds; from and until in Unix milliseconds."""

    since_ms: int
    until_ms: int
    cpu_s: int
    active_s: int


class Slice(NamedTuple):
    """What one note has added; `active_ms` is 0 where nothing counts since the note before."""

    since_ms: int
    until_ms: int
    cpu: int
    active_ms: int


@dataclass(frozen=True, slots=True)
class Meter:
    """One VM's sums.

    Attributes:
        at_ms: billing time, Unix milliseconds; never goes back.
        noted: milli-vCPU at the last note; None: what comes next follows nothing.
        cpu: milli-CPU × milliseconds since the meter began.
        active: milliseconds since the meter began.
        told: by sink.
    """

    at_ms: int
    noted: int | None
    cpu: int = 0
    active: int = 0
    told: Mapping[str, Told] = field(default_factory=dict)


def begin_meter(now_ms: int, cpu: int, sinks: Iterable[str]) -> Meter:
    """The first note of a VM; nothing is counted before it."""
    return Meter(now_ms, cpu, told={sink: Told(now_ms, 0, 0) for sink in sinks})


def with_sinks(meter: Meter, sinks: Iterable[str]) -> Meter:
    """The meter as these sinks see it: a new one begins now, one that is gone is forgotten."""
    now = Told(meter.at_ms, meter.cpu, meter.active)
    return replace(meter, told={sink: meter.told.get(sink, now) for sink in sinks})


def note(meter: Meter, cpu: int | None, *, elapsed_ms: int, now_ms: int, max_gap_ms: int) -> Meter:
    """Note the CPUs.

    Args:
        cpu: milli-vCPU; None: the VM does not say, or is gone: nothing counts until the next note but one.
        elapsed_ms: since the last note, by a clock that is not set; less than nothing counts as nothing.
        now_ms: Unix milliseconds. Where the wall clock was set back, billing time goes on from where it was.
        max_gap_ms: a longer gap counts for nothing.
    """
    elapsed_ms = max(elapsed_ms, 0)
    at_ms = max(meter.at_ms + elapsed_ms, now_ms)
    if cpu is None or meter.noted is None or elapsed_ms > max_gap_ms:
        return Meter(at_ms, cpu, meter.cpu, meter.active, meter.told)
    counted = min(meter.noted, cpu) * elapsed_ms
    return Meter(at_ms, cpu, meter.cpu + counted, meter.active + elapsed_ms, meter.told)


def slice_between(before: Meter, after: Meter) -> Slice:
    """What a note has added, for a journal."""
    active = after.active - before.active
    return Slice(before.at_ms, after.at_ms, (after.cpu - before.cpu) // active if active else 0, active)


def close_window(meter: Meter, sink: str) -> tuple[Meter, Usage | None]:
    """End the sink's window at the meter's time; None where it holds nothing, and the next begins there."""
    told = meter.told.get(sink)
    if told is None:
        return meter, None
    end = Told(meter.at_ms, meter.cpu, meter.active)
    if told == end:
        return meter, None
    closed = replace(meter, told={**meter.told, sink: end})
    if told.active == end.active:
        return closed, None
    usage = Usage(
        told.at_ms,
        end.at_ms,
        _rounded(end.cpu, CPU_SECOND) - _rounded(told.cpu, CPU_SECOND),
        _rounded(end.active, ACTIVE_SECOND) - _rounded(told.active, ACTIVE_SECOND),
    )
    return closed, usage


def is_all_told(meter: Meter) -> bool:
    """Whether every sink has an event for all that was used."""
    return all((told.cpu, told.active) == (meter.cpu, meter.active) for told in meter.told.values())


def _rounded(amount: int, unit: int) -> int:
    """Whole units, half of one upwards."""
    return (2 * amount + unit) // (2 * unit)
