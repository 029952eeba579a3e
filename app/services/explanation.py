"""The last decision about a VM, computed anew from its record: inputs, arithmetic, what holds it back.

The core's sentences are told as of now, so that "until" is true for the reader; what was said when the
decision was made and is over by now comes apart, in `said_then`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from app.core.decide import next_actions
from app.core.explain import explain
from app.core.goal import Desired, desired_resources
from app.core.model import Millis, ScalingConfig
from app.core.resources import Resources
from app.ports.store import Intent, LeaseRow
from app.services.fixed_size import KIND as RESIZE
from app.services.fixed_size import FixedSize, hand_text, read_fixed
from app.services.fleet_view import VmRow
from app.services.instructing import in_force
from app.services.vm_record import VmRecord
from app.services.vm_row import read_state
from app.services.why import owners_reasons
from app.services.wording import size_text

_END_OF = {"pause": "resume", "mode": "mode as the platform says", RESIZE: "scaling by load again"}
"""What is not taken up yet where an intent of a kind stands no more."""


@dataclass(frozen=True, slots=True)
class VmExplanation:
    """Everything that `explain` shows.

    Attributes:
        decided_ms: when the decision was made.
        lines: the core's explanation, a sentence each, in reading order.
        obstacles: what the owner adds to the core's word: a pause, a migration, caution after a failure.
        said_then: reasons of the decision that hold no more.
        scaling: the targets in force.
        goal: the arithmetic as numbers.
        use: what the core believes the VM to use.
        permit: last permit; None if there never was one.
        approved: what the monitor has approved; None while it can't be asked.
        look_again_ms: when the core looks again by itself; None: only when something happens.
        waiting: operators' wishes that the owner has not taken up yet.
        is_migrating: the VM's size must not change.
        lease: of the VM's bucket, now.
    """

    row: VmRow
    now_ms: Millis
    decided_ms: Millis
    lines: tuple[str, ...]
    obstacles: tuple[str, ...]
    said_then: tuple[str, ...]
    scaling: ScalingConfig
    goal: Desired
    use: Resources
    permit: Resources | None
    approved: Resources | None
    look_again_ms: Millis | None
    waiting: tuple[str, ...]
    is_migrating: bool
    lease: LeaseRow | None


def explain_vm(
    record: VmRecord, row: VmRow, lease: LeaseRow | None, standing: Iterable[Intent], now: Millis
) -> VmExplanation:
    """Explain the last decision; `standing` are the operators' intents of the VM's bucket.

    Raises:
        InvalidInput: the core's snapshot in the record can't be read.
    """
    state = read_state(record)
    decided = Millis(record.decision.at_ms)
    at = max(now, decided)
    actions = next_actions(state, at)
    obstacles = owners_reasons(state, decided, record.decision.reasons)
    still = {*obstacles, *actions.reasons}
    return VmExplanation(
        row=row,
        now_ms=now,
        decided_ms=decided,
        lines=(*_by_hand(row, now), *explain(state, at)),
        obstacles=obstacles,
        said_then=tuple(reason for reason in record.decision.reasons if reason not in still),
        scaling=state.scaling,
        goal=desired_resources(state, at),
        use=state.vm.use,
        permit=state.plugin.permit,
        approved=state.monitor.approved,
        look_again_ms=None if actions.wait is None else Millis(at + actions.wait),
        waiting=_waiting(record, row, list(standing)),
        is_migrating=record.platform.migrating,
        lease=lease,
    )


def _waiting(record: VmRecord, row: VmRow, standing: list[Intent]) -> tuple[str, ...]:
    """Wishes that stand but don't show in the record, and those in the record that stand no more."""
    found = []
    shown_ids = {"pause": record.intents.pause, "mode": record.intents.mode, RESIZE: record.intents.resize}
    # A pause or a fixed size in the record that has ended by itself is not waited for.
    ends = {"pause": row.pause is not None, "mode": True, RESIZE: row.fixed is not None}
    for kind, shown in shown_ids.items():
        counted = in_force(standing, row.key, kind)
        if counted is not None and counted.intent_id != shown:
            found.append(f"{_wish(counted)}, wanted by {counted.author}")
        elif counted is None and shown is not None and ends[kind]:
            found.append(_END_OF[kind])
    return tuple(found)


def _wish(intent: Intent) -> str:
    fixed = read_fixed(intent)
    if fixed is not None:
        return f"resize to {fixed.text()}"
    return intent.kind if intent.kind == "pause" else f"{intent.kind} {intent.value}"


def _by_hand(row: VmRow, now: Millis) -> tuple[str, ...]:
    fixed = row.fixed
    if fixed is None:
        return ()
    size = FixedSize(fixed.cpu_m, fixed.mem_bytes)
    said = hand_text(size, fixed.author, fixed.reason, fixed.until_ms, now)
    bounds = f"{size_text(row.min, row.slot_bytes)} to {size_text(row.max, row.slot_bytes)}"
    return (f"fixed by hand at {said}; else it may have {bounds}",)
