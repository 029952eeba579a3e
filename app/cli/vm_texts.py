"""What the command line says of a VM: cells of the list, lines of the details."""

from __future__ import annotations

from app.core.model import Mode
from app.core.resources import Resources
from app.ports.store import LeaseRow
from app.protocols.printable import printable
from app.services.fixed_size import FixedSize, hand_text
from app.services.fleet_view import VmRow
from app.services.inspection import VmView
from app.services.vm_record import Fixed, LastStep, Operation, Pause
from app.services.wording import ago_text, bytes_text, cpu_text, size_text, span_text, until_text

_ARROW = " → "


def list_cells(row: VmRow) -> tuple[str, ...]:
    """The cells of `vm list`, in the order of its columns."""
    observed = row.observed or row.use
    desired = row.desired
    return (
        printable(row.key),
        bucket_text(row.bucket).partition("-")[0],
        row.worker,
        state_text(row),
        "–" if row.metrics is None else f"{row.metrics.load1:.2f}",
        _change(
            cpu_text(row.use.cpu), None if desired is None else cpu_text(desired.cpu), cpu_text(observed.cpu)
        ),
        _change(_mem(row.use, row), None if desired is None else _mem(desired, row), _mem(observed, row)),
        "never" if row.sample_age_ms is None else span_text(row.sample_age_ms),
        printable(row.why),
    )


def state_text(row: VmRow) -> str:
    """`ok`, or whatever makes the VM another than one that is scaled and well: `stuck, paused`."""
    words = [row.status] if row.status != "ok" else []
    if row.mode is Mode.OBSERVE:
        words.append("observed")
    if row.pause is not None:
        words.append("paused")
    if row.fixed is not None:
        words.append("by hand")
    if row.operation is not None:
        words.append(row.operation.state)
    return ", ".join(words) or "ok"


def bucket_text(name: str) -> str:
    """`03-of-16` for `autoscaler-bucket-03-of-16`."""
    return printable(name.removeprefix("autoscaler-bucket-"))


def vm_facts(view: VmView) -> list[tuple[str, str]]:
    """The details of one VM, as (label, text)."""
    row, now = view.row, view.now_ms
    slot = row.slot_bytes
    differs = row.observed is not None and row.observed != row.use
    return [
        ("now", size_text(row.use, slot)),
        ("observed", size_text(row.observed, slot) if row.observed is not None and differs else ""),
        ("desired", "not decided yet" if row.desired is None else size_text(row.desired, slot)),
        ("bounds", f"{size_text(row.min, slot)} to {size_text(row.max, slot)}"),
        ("why", printable(row.why)),
        ("status", f"{row.status}: {row.status_reason}" if row.status_reason else row.status),
        ("mode", mode_text(row)),
        ("pause", pause_text(row.pause, now)),
        ("by hand", by_hand_text(row.fixed, now)),
        ("sample", sample_text(row, now)),
        ("operation", operation_text(row.operation, slot, now)),
        ("last", last_text(row.last, slot, now)),
        ("owner", owner_text(row, view.lease)),
        ("node", row.node),
        ("counters", ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in row.counters.items())),
    ]


def mode_text(row: VmRow) -> str:
    """`observe, set by ada@host: trying it out`."""
    if row.mode_by == "platform":
        return f"{row.mode.value}, as the platform says"
    reason = f": {row.mode_reason}" if row.mode_reason else ""
    return f"{row.mode.value}, set by {row.mode_by}{reason}"


def pause_text(pause: Pause | None, now: int) -> str:
    """Until when, by whom and why; empty when not paused."""
    if pause is None:
        return ""
    until = "until it is resumed" if pause.until_ms is None else until_text(pause.until_ms, now)
    since = "" if pause.since_ms is None else f", since {ago_text(pause.since_ms, now)}"
    reason = f": {pause.reason}" if pause.reason else ""
    return f"by {pause.author} {until}{since}{reason}"


def by_hand_text(fixed: Fixed | None, now: int) -> str:
    """The size fixed by hand, by whom, until when and why; empty without one."""
    if fixed is None:
        return ""
    size = FixedSize(fixed.cpu_m, fixed.mem_bytes)
    since = "" if fixed.since_ms is None else f" (since {ago_text(fixed.since_ms, now)})"
    return hand_text(size, fixed.author, fixed.reason, fixed.until_ms, now) + since


def sample_text(row: VmRow, now: int) -> str:
    """The sample in use, its age, and why the last poll gave none."""
    metrics, sample = row.metrics, row.sample
    taken = "none yet"
    if metrics is not None:
        used = bytes_text(metrics.mem_bytes)
        taken = f"load1 {metrics.load1:.2f}, load5 {metrics.load5:.2f}, memory {used}"
        taken += f"; {ago_text(sample.at_ms, now)}"
    if sample.error is None:
        return taken
    times = f", {sample.failures} times in a row" if sample.failures > 1 else ""
    return f"{taken}; the last poll ({ago_text(sample.tried_ms, now)}{times}) failed: {sample.error}"


def operation_text(operation: Operation | None, slot_bytes: int, now: int) -> str:
    """The resize under way; empty when there is none."""
    if operation is None:
        return ""
    to = size_text(operation.to_size.amount(), slot_bytes)
    came = size_text(operation.from_size.amount(), slot_bytes)
    return (
        f"{operation.kind} {came}{_ARROW}{to}, {operation.state}, begun {ago_text(operation.since_ms, now)}"
    )


def last_text(last: LastStep | None, slot_bytes: int, now: int) -> str:
    """What happened last; empty when nothing has."""
    if last is None:
        return ""
    text = f"{last.kind.replace('_', ' ')} {ago_text(last.at_ms, now)}"
    if last.from_size is not None and last.to_size is not None:
        came, went = last.from_size.amount(), last.to_size.amount()
        text += f", {size_text(came, slot_bytes)}{_ARROW}{size_text(went, slot_bytes)}"
    return f"{text}: {last.why}" if last.why else text


def owner_text(row: VmRow, lease: LeaseRow | None) -> str:
    """Who holds the VM's bucket, and who wrote its record where that is another one."""
    bucket = bucket_text(row.bucket)
    if lease is None or lease.holder is None:
        return f"nobody: bucket {bucket} has no holder; last one {row.worker}"
    name = printable(lease.holder.identity.rpartition("_")[0] or lease.holder.identity)
    rest = f"lease ends in {span_text(lease.remaining_ms)} unless renewed, token {lease.token}"
    return f"{name}, bucket {bucket}, {rest}" + (
        "" if name == row.worker else f"; the record is from {row.worker}"
    )


def _change(now: str, desired: str | None, observed: str) -> str:
    if desired is not None and now.endswith(" GiB") and desired.endswith(" GiB"):
        now, observed = now.removesuffix(" GiB"), observed.removesuffix(" GiB")
    text = f"{now}{_ARROW}{'?' if desired is None else desired}"
    return text if observed == now else f"{text} ({observed})"


def _mem(size: Resources, row: VmRow) -> str:
    return bytes_text(size.mem * row.slot_bytes)
