"""What happens to one runner's core, noted as it happens, for all recordings of it.

Only notes: the event, the time that it was applied at, the state after it and the answer of the core, all of
them immutable. Text is made of them later, beside the runner (`recording.Tape`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from app.core.actions import ActionSet
from app.core.decide import next_actions
from app.core.events import Event
from app.core.model import Millis
from app.core.state import State
from app.core.transition import Outcome


@dataclass(frozen=True, slots=True)
class LiveStep:
    """One step of a live core.

    Attributes:
        event: None where the core was only asked.
        state: the state after the event.
        actions: the core's answer in that state, at `now`; made when it happened.
        is_refused: the event was refused; the state may be another all the same (a bad permit).
        is_first: the step only says what a recording begins with.
    """

    event: Event | None
    now: Millis
    state: State
    actions: ActionSet
    is_refused: bool = False
    is_first: bool = False


class Listener(Protocol):
    """Takes steps; must not wait."""

    def put(self, step: LiveStep) -> None:
        """The next step."""
        ...


class Recorder:
    """Hands the steps of one runner to everyone who records it.

    Attributes:
        listeners: who gets the steps from now on; a new one begins with `first_step`.
    """

    def __init__(self) -> None:
        self.listeners: list[Listener] = []
        self._last: LiveStep | None = None

    def applied(self, event: Event, now: Millis, outcome: Outcome) -> None:
        """An event was applied, or refused, at `now`."""
        actions = next_actions(outcome.state, now)
        self._put(LiveStep(event, now, outcome.state, actions, outcome.refused is not None))

    def decided(self, now: Millis, state: State, actions: ActionSet) -> None:
        """The core was asked; what the last step says already is not said again."""
        last = self._last
        if last is None or last.now != now or last.state is not state:
            self._put(LiveStep(None, now, state, actions))

    def begun_anew(self, state: State, now: Millis) -> None:
        """The state has changed by no event: whatever comes next goes on from this one."""
        self._put(first_step(state, now))

    def _put(self, step: LiveStep) -> None:
        self._last = step
        for listener in self.listeners:
            listener.put(step)


def first_step(state: State, now: Millis) -> LiveStep:
    """What a recording begins with that is begun now."""
    return LiveStep(None, now, state, next_actions(state, now), is_first=True)
