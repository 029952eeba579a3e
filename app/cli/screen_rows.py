"""Which VMs the demo's screen shows when not all fit, and what it says of each; texts only, no terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.core.model import Mode
from app.protocols.printable import printable
from app.services.fleet_view import VmRow
from app.services.wording import cpu_text, span_text

FRESH_MS = 10_000
"""How long a change counts as recent."""

_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class RowTexts:
    """One VM's cells, safe to show.

    Attributes:
        trend: `up` or `down` while more or less is desired than there is, `fresh` just after a resize,
            `trouble` when the VM needs a look, else empty; a viewer colours by it.
    """

    vm: str
    bucket: str
    worker: str
    load: str
    cpu: str
    memory: str
    why: str
    trend: str


def choose_rows(rows: Sequence[VmRow], room: int) -> tuple[VmRow, ...]:
    """All rows by name if they fit; else the most interesting ones first.

    Observed VMs (this machine is one) come first, then those being resized or in trouble, then the others,
    last changed first.
    """
    if len(rows) <= room:
        return tuple(sorted(rows, key=lambda row: row.key))
    return tuple(sorted(rows, key=_interest)[: max(0, room)])


def describe(row: VmRow, now_ms: int) -> RowTexts:
    """The cells of one VM."""
    desired = row.desired
    return RowTexts(
        vm=printable(row.key),
        bucket=bucket_number(row.bucket),
        worker=printable(row.worker),
        load="–" if row.metrics is None else f"{row.metrics.load1:.2f}",
        cpu=_amounts(
            cpu_text(row.use.cpu),
            None if desired is None else cpu_text(desired.cpu),
            None if row.observed is None else cpu_text(row.observed.cpu),
        ),
        memory=_amounts(
            _gib(row.use.mem, row.slot_bytes),
            None if desired is None else _gib(desired.mem, row.slot_bytes),
            None if row.observed is None else _gib(row.observed.mem, row.slot_bytes),
        ),
        why=_sentence(row, now_ms),
        trend=_trend(row, now_ms),
    )


def bucket_number(name: str) -> str:
    """`03` for `autoscaler-bucket-03-of-16`; another name as it is."""
    before, _, _ = name.removeprefix("autoscaler-bucket-").partition("-of-")
    return printable(before if before.isdigit() else name)


def _interest(row: VmRow) -> tuple[int, int, str]:
    changed = row.last.at_ms if row.last is not None else 0
    if row.mode is Mode.OBSERVE:
        return (0, 0, row.key)
    if row.operation is not None or row.status != "ok":
        return (1, -changed, row.key)
    return (2, -changed, row.key)


def _trend(row: VmRow, now_ms: int) -> str:
    if row.status != "ok" or (row.operation is not None and row.operation.state == "not applied"):
        return "trouble"
    real = row.real_size
    if row.mode is Mode.SCALE and row.desired is not None and row.desired != real:
        return "up" if row.desired.has_field_above(real) else "down"
    return "fresh" if _is_fresh(row, now_ms) else ""


def _is_fresh(row: VmRow, now_ms: int) -> bool:
    return row.last is not None and now_ms - row.last.at_ms < FRESH_MS


def _sentence(row: VmRow, now_ms: int) -> str:
    why = printable(row.why)
    tags = ", ".join(_tags(row, now_ms))
    return f"{tags}: {why}" if tags and why else tags or why


def _tags(row: VmRow, now_ms: int) -> list[str]:
    tags = []
    if row.mode is Mode.OBSERVE:
        tags.append("observed")
    if row.pause is not None:
        tags.append("paused")
    if row.status != "ok":
        tags.append(printable(row.status))
    if row.operation is not None:
        tags.append(f"{printable(row.operation.state)} for {span_text(now_ms - row.operation.since_ms)}")
    elif row.last is not None and _is_fresh(row, now_ms):
        tags.append(f"{printable(row.last.kind.replace('_', ' '))} {span_text(now_ms - row.last.at_ms)} ago")
    return tags


def _amounts(now: str, desired: str | None, observed: str | None) -> str:
    """`1.0 → 2.0`, with the observed amount in brackets where it differs from the one asked for."""
    text = f"{now} → {'?' if desired is None else desired}"
    return text if observed is None or observed == now else f"{text} ({observed})"


def _gib(slots: int, slot_bytes: int) -> str:
    return f"{slots * slot_bytes / _GIB:.2f}".rstrip("0").rstrip(".")
