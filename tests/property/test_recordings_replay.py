"""Whatever happens to a VM, its recording replays with no difference."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from app.core import events
from app.core.decide import next_actions
from app.core.events import Event, at_least
from app.core.model import CoreConfig, CoreVm, Millis
from app.core.resources import Resources
from app.core.state import State, initial_state
from app.core.transition import apply
from app.services.event_script import read_script
from app.services.recorder import LiveStep, Recorder, first_step
from app.services.replay import differences, run_script
from app.services.script_writing import ScriptWriter
from tests.property.core_strategies import (
    Answer,
    Follow,
    Move,
    Wait,
    amounts,
    answers,
    configs,
    starts,
    units,
    vms,
    wild_moves,
)

T0 = Millis(1_000_000)


class Kept(list[LiveStep]):
    """A listener that keeps what it hears."""

    def put(self, step: LiveStep) -> None:
        self.append(step)


def happenings_of(move: Move, state: State, now: Millis, unit: Resources) -> list[Event]:
    match move:
        case Wait():
            return []
        case Follow():
            return starts(move, now, next_actions(state, now))
        case Answer():
            return answers(state, move, now, unit)
        case _:
            return [at_least(move(now), now)]


@settings(max_examples=300, deadline=None)
@given(vms, configs, units | amounts, wild_moves, st.integers(0, 20), st.sampled_from([2_000, 2**20]))
def test_a_recording_of_any_conversation_replays_without_difference(
    vm: CoreVm, config: CoreConfig, unit: Resources, script: list[Move], begin: int, max_bytes: int
) -> None:
    state, now = initial_state(vm, config), T0
    recorder, kept = Recorder(), Kept()
    for event in (events.PluginNewScheduler(), events.MonitorActive(True)):
        state = apply(state, event).state
    for index, move in enumerate(script):
        if index == begin:
            kept.put(first_step(state, now))
            recorder.listeners.append(kept)
        if isinstance(move, Wait):
            now = Millis(now + move.milliseconds)
        for event in happenings_of(move, state, now, unit):
            outcome = apply(state, event)
            recorder.applied(event, now, outcome)
            state = outcome.state
        recorder.decided(now, state, next_actions(state, now))
    writer = ScriptWriter("t", max_bytes=max_bytes)
    pieces = [piece for start in range(0, len(kept), 7) for piece in writer.write(kept[start : start + 7])]
    texts: dict[str, list[bytes]] = {}
    for piece in pieces:
        texts.setdefault(piece.script, []).append(piece.steps)
    found = [
        read_script({"id": name, "steps": json.loads(b"[" + b",".join(parts) + b"]")})
        for name, parts in texts.items()
    ]
    assert [line for one in found for answer in run_script(one) for line in differences(answer)] == []
    assert sum(step.op not in ("new", "next") for one in found for step in one.steps) == sum(
        step.event is not None for step in kept
    )
