"""Operators' intents, taken up by the owner at its tick: pause, mode and a size fixed by hand.

Each is in the audit trail with its reason and author, when it is taken up and when it ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from app.core.events import UpdatedVm
from app.core.model import Mode
from app.ports.store import Intent
from app.services.fixed_size import KIND as RESIZE
from app.services.fixed_size import for_core, read_fixed
from app.services.runner import Runner
from app.services.wording import moment_text

ALL_VMS = "*"
"""An intent for every VM of its bucket; a VM's own intent goes before it."""

NO_REASON = "no reason given"


def take_up(intents: Sequence[Intent], runners: Iterable[Runner]) -> list[Runner]:
    """Give each runner the intents that stand for it now; those for which that is new or the first time.

    Called at each tick with all standing intents of the bucket: a missing one was taken back or has ended.
    """
    by_target: dict[str, dict[str, Intent]] = {}
    for intent in intents:
        by_target.setdefault(intent.target, {})[intent.kind] = intent
    for_all = by_target.get(ALL_VMS, {})
    changed = []
    for runner in runners:
        standing = {**for_all, **by_target.get(runner.key, {})}
        wanted = {kind: intent for kind, intent in standing.items() if _counts(intent)}
        if wanted != runner.intents or not runner.has_intents:
            runner.has_intents = True
            _change(runner, wanted, standing)
            changed.append(runner)
    return changed


def _counts(intent: Intent) -> bool:
    """Whether it wants something that this version knows; one that was taken back only tells by whom."""
    if intent.kind == "mode":
        return intent.value in set(Mode)
    if intent.kind == RESIZE:
        return read_fixed(intent) is not None
    return intent.kind == "pause" and intent.value == "on"


def _change(runner: Runner, wanted: dict[str, Intent], standing: dict[str, Intent]) -> None:
    before, runner.intents = runner.intents, wanted
    for kind in sorted({*before, *wanted}):
        new = wanted.get(kind)
        if before.get(kind) == new:
            continue
        if kind == "pause":
            _note(runner, "paused" if new else "resumed", standing.get(kind), "the pause has ended")
        elif kind == "mode":
            said = f"{runner.mode}: " if new else f"{runner.mode}, its own again: "
            _note(runner, "mode", new or standing.get(kind), "as the platform says", said)
        elif kind == RESIZE:
            _note_size(runner, new, standing.get(kind))
            runner.apply(UpdatedVm(for_core(runner.vm.for_core(), wanted)))
    runner.set_mode()


def _note_size(runner: Runner, new: Intent | None, standing: Intent | None) -> None:
    fixed, vm = read_fixed(new), runner.vm
    if new is None or fixed is None:
        _note(runner, "scaled_again", standing, "the time of the size fixed by hand is over")
        return
    low, high = fixed.within(vm.min, vm.max, vm.slot_bytes)
    use = runner.state.vm.use
    until = "" if new.until_ms is None else f" until {moment_text(new.until_ms, runner.now())} UTC"
    why = f"{fixed.text()}{until}: {new.reason or NO_REASON}"
    target = use.max(low).min(high)
    runner.audit.add("fixed_by_hand", why=why, origin=use, target=target, who=new.author)


def _note(runner: Runner, kind: str, intent: Intent | None, otherwise: str, prefix: str = "") -> None:
    why = otherwise if intent is None else intent.reason or NO_REASON
    runner.audit.add(kind, why=prefix + why, who=None if intent is None else intent.author)
