"""Operators' intents, taken up by the owner at its tick: pause and mode, with entries in the audit trail."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from app.core.model import Mode
from app.ports.store import Intent
from app.services.runner import Runner

ALL_VMS = "*"
"""An intent for every VM of its bucket; a VM's own intent goes before it."""


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
    """Whether it says something that this version knows; a pause that is off stands against one for all."""
    if intent.kind == "mode":
        return intent.value in set(Mode)
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
            _note(runner, "mode", new, "as the platform says", f"{runner.mode}: ")
    runner.set_mode()


def _note(runner: Runner, kind: str, intent: Intent | None, otherwise: str, prefix: str = "") -> None:
    why = otherwise if intent is None else intent.reason or "no reason given"
    runner.audit.add(kind, why=prefix + why, who=None if intent is None else intent.author)
