"""Rules of size: no VM below what its monitor approved, none above its permit."""

from __future__ import annotations

from dataclasses import dataclass

from tests.chaos.evidence import Effect, Evidence, Findings, Line, Size
from tests.chaos.spans import overlap

BELOW_APPROVED = "below what the monitor approved"
ABOVE_PERMIT = "above the permit"


@dataclass(slots=True)
class _Books:
    """One VM so far.

    Attributes:
        use: the size last accepted by the platform.
        floor: what its monitor knows it has; nothing below it may be asked of the platform.
        permit: what the scheduler last granted; the first size before it was asked.
        above_since: since when `use` is above `permit`.
    """

    use: Size
    floor: Size
    permit: Size
    floor_line: Line
    permit_line: Line
    above_since: float | None = None


def check_sizes(evidence: Evidence, findings: Findings) -> None:
    """Go through each VM's effects in their order."""
    books = {
        key: _Books(
            vm.first,
            vm.first,
            vm.first,
            {"vm": key, "first": str(vm.first)},
            {"vm": key, "first": str(vm.first)},
        )
        for key, vm in evidence.vms.items()
    }
    longest = 0.0
    for effect in sorted(evidence.effects, key=lambda effect: effect.at):
        page = books.get(effect.vm)
        if page is None or effect.size is None or not effect.is_applied:
            continue
        _enter(page, effect, findings)
        longest = max(longest, _follow(page, effect, evidence, findings))
    findings.figures["longest time of a VM above its permit"] = f"{longest:.1f} s"


def _enter(page: _Books, effect: Effect, findings: Findings) -> None:
    size = effect.size
    if size is None:
        return
    match effect.receiver, effect.what:
        case "monitor", "approved" | "told":
            page.floor, page.floor_line = size, effect.line
        case "scheduler", "granted":
            page.permit, page.permit_line = size, effect.line
        case "platform", "asked":
            if size.is_below(page.floor):
                text = f"{effect.vm}: {size} was asked of the platform, the monitor had approved {page.floor}"
                findings.say(BELOW_APPROVED, text, page.floor_line, effect.line)
            if page.permit.is_below(size) and page.use.is_below(size):
                text = f"{effect.vm}: {size} was asked of the platform, the permit is {page.permit}"
                findings.say(ABOVE_PERMIT, text, page.permit_line, effect.line)
            page.use = size


def _follow(page: _Books, effect: Effect, evidence: Evidence, findings: Findings) -> float:
    """How long the VM has been above its permit, which a take-over may make it for a while."""
    waited = 0.0
    if page.above_since is not None:
        waited = effect.at - page.above_since - overlap(evidence.left_out, page.above_since, effect.at)
        if waited > evidence.limits.poll_s:
            text = f"{effect.vm}: for {waited:.1f} s it had {page.use}, above its permit"
            findings.say(ABOVE_PERMIT, text, page.permit_line, effect.line)
    if not page.permit.is_below(page.use):
        page.above_since = None
    elif page.above_since is None or waited > evidence.limits.poll_s:
        page.above_since = effect.at
    return waited
