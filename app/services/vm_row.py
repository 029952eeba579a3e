"""From a VM's record to its row: what is known of it, and the last decision in a sentence."""

from __future__ import annotations

from app.core.model import Millis
from app.core.snapshot import from_snapshot
from app.core.state import State
from app.ports.vm import VmKey
from app.services.fixed_size import FixedSize, hand_text
from app.services.fleet_view import VmRow
from app.services.vm_record import VmRecord
from app.services.why import why_text


def read_state(record: VmRecord) -> State:
    """The core's state as it was when the record was written.

    Raises:
        InvalidInput: the snapshot in the record can't be read.
    """
    return from_snapshot(dict(record.snapshot), Millis(record.core_now_ms))


def build_row(record: VmRecord, now: Millis) -> VmRow:
    """The row of one VM at `now`.

    Raises:
        InvalidInput: the core's snapshot in the record can't be read.
    """
    state = read_state(record)
    platform, decision = record.platform, record.decision
    return VmRow(
        key=VmKey(record.key),
        bucket=record.bucket,
        worker=record.worker,
        node=record.node,
        mode=record.mode,
        mode_by=record.mode_by,
        mode_reason=record.mode_reason,
        pause=record.pause_at(now),
        fixed=record.fixed_at(now),
        status=record.status,
        status_reason=record.status_reason,
        min=platform.min.amount(),
        max=platform.max.amount(),
        use=platform.use.amount(),
        observed=None if platform.observed is None else platform.observed.amount(),
        desired=None if decision.desired is None else decision.desired.amount(),
        slot_bytes=platform.slot_bytes,
        metrics=state.metrics,
        has_scheduler=state.plugin.alive,
        permit=state.plugin.permit,
        sample=record.sample,
        sample_age_ms=None if record.sample.at_ms is None else max(0, now - record.sample.at_ms),
        operation=record.operation,
        failing=record.failing,
        last=record.last,
        why=why_text(state, Millis(decision.at_ms), decision.reasons, _by_hand(record, now)),
        counters=record.counters,
    )


def _by_hand(record: VmRecord, now: Millis) -> str:
    fixed = record.fixed_at(now)
    if fixed is None:
        return ""
    size = FixedSize(fixed.cpu_m, fixed.mem_bytes)
    return f"fixed by hand at {hand_text(size, fixed.author, fixed.reason, fixed.until_ms, now)}"
