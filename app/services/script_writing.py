"""Steps of a live core as the text of event scripts (`vectors/README.md`), which replay with no difference.

A script begins with `new`: settings, VM, and the state as a snapshot unless nothing has happened to it yet.
It ends, and another one goes on from a snapshot, when it is long enough, and at an event that the schema
can't carry (a value out of its bounds), so that every script is true by itself.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from app.core.json_forms import Json, config_to_json, resources_to_json, vm_to_json
from app.core.model import Millis
from app.core.snapshot import to_snapshot
from app.core.state import State, initial_state
from app.errors import InvalidInput
from app.services.event_json import event_json, is_faithful
from app.services.event_script import read_script
from app.services.recorder import LiveStep
from app.services.vector_json import actions_json

MAX_SCRIPT_BYTES = 8 * 2**20
"""A script is ended by then; `replay` reads lines of twice that."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of one script's text.

    Attributes:
        script: the script's id; a new one begins a new script.
        steps: JSON objects with a comma between each two.
    """

    script: str
    steps: bytes


class ScriptWriter:
    """Writes one VM's steps as scripts, one after the other.

    Args:
        title: what the scripts' ids begin with: whose core it is.
        max_bytes: about how long a script may get.
        max_ms: how much time a script may cover; None: any.
    """

    def __init__(self, title: str, *, max_bytes: int = MAX_SCRIPT_BYTES, max_ms: int | None = None) -> None:
        self._title = title
        self._max_bytes = min(max_bytes, MAX_SCRIPT_BYTES)
        self._max_ms = max_ms
        self._script = ""
        self._began: Millis = Millis(0)
        self._size = 0
        self._count = 0

    def write(self, steps: Sequence[LiveStep]) -> list[Piece]:
        """The text of these steps, which follow those written before; a piece for each script."""
        texts: dict[str, list[bytes]] = {}
        for step in steps:
            for script, text in self._texts(step):
                texts.setdefault(script, []).append(text)
        return [Piece(script, b",".join(parts)) for script, parts in texts.items()]

    def _texts(self, step: LiveStep) -> list[tuple[str, bytes]]:
        if step.is_first or not self._script:
            return self._begin(step)
        event: Json
        if step.event is None:
            event = {"op": "next", "now_ms": step.now}
        else:
            event = event_json(step.event, step.now)
            if not is_faithful(step.event, event):
                return self._begin(step)
        texts = [self._put(step, event)]
        is_long = self._max_ms is not None and step.now - self._began >= self._max_ms
        if self._size >= self._max_bytes or is_long:
            texts += self._begin(step)
        return texts

    def _begin(self, step: LiveStep) -> list[tuple[str, bytes]]:
        """Begin a script with the state that the step led to; nothing where that can't be told either."""
        state = step.state
        event: Json = {
            "op": "new",
            "now_ms": step.now,
            "vm": vm_to_json(state.vm),
            "config": config_to_json(state.config),
        }
        if not _is_initial(state):
            event["snapshot"] = to_snapshot(state)
        if not _reads_back(event, state):
            self._script = ""
            return []
        self._count += 1
        self._script = f"{self._title} {_moment(step.now)} {self._count}"
        self._began, self._size = step.now, 0
        return [self._put(replace(step, is_refused=False), event)]

    def _put(self, step: LiveStep, event: Json) -> tuple[str, bytes]:
        desired = step.actions.desired
        expect: Json = {
            "actions": actions_json(step.actions),
            "desired": None if desired is None else resources_to_json(desired),
        }
        if step.is_refused:
            expect["error"] = True
        text = json.dumps({"event": event, "expect": expect}, separators=(",", ":"), allow_nan=False).encode()
        self._size += len(text) + 1
        return self._script, text


def _is_initial(state: State) -> bool:
    try:
        return initial_state(state.vm, state.config) == state
    except InvalidInput:
        return False


def _reads_back(event: Json, state: State) -> bool:
    try:
        return read_script({"id": "", "steps": [{"event": event}]}).initial == state
    except InvalidInput:
        return False


def _moment(now: Millis) -> str:
    """UTC to the millisecond; a moment that no calendar has stays a number."""
    try:
        return datetime.fromtimestamp(now / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(now)
