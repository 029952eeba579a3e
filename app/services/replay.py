"""Run event scripts through the decision core and compare with what was recorded.

Pure driving: time is what the script says. A step's answer is the core's after its event.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from app.core.actions import ActionSet
from app.core.decide import next_actions
from app.core.invariants import broken_invariants
from app.core.json_forms import Json, resources_to_json
from app.core.state import State
from app.core.transition import apply
from app.services.event_script import Script, Step
from app.services.vector_json import actions_json


@dataclass(frozen=True, slots=True)
class Answer:
    """What the core said after one step.

    Attributes:
        step: the step that it answers.
        state: the state after its event.
        error: why the event was refused; None if it was taken.
    """

    step: Step
    state: State
    actions: ActionSet
    error: str | None


def run_script(script: Script) -> Iterator[Answer]:
    """Feed the events in order; one answer per step, made when it is asked for."""
    state = script.initial
    for step in script.steps:
        error = None
        if step.event is not None:
            outcome = apply(state, step.event)
            state, error = outcome.state, outcome.refused
        yield Answer(step, state, next_actions(state, step.now), error)


def answer_json(answer: Answer) -> Json:
    """`{"actions", "desired", "error", "reasons"}`, quantities as in the vectors."""
    desired = answer.actions.desired
    return {
        "actions": actions_json(answer.actions),
        "desired": None if desired is None else resources_to_json(desired),
        "error": answer.error,
        "reasons": list(answer.actions.reasons),
    }


def script_json(script: Script) -> Json:
    """The script's whole answer: `{"id", "steps"}`."""
    return {"id": script.script_id, "steps": [answer_json(answer) for answer in run_script(script)]}


def differences(answer: Answer) -> list[str]:
    """How an answer differs from the recorded one, a line each; empty if it doesn't, or nothing is recorded.

    A step that is only expected to be total is checked against the properties that always hold. Numbers that
    are no integers are compared in single precision.
    """
    expect = answer.step.expect
    if expect is None:
        return []
    if expect.get("total") is True:
        return broken_invariants(answer.state, answer.step.now, answer.actions)
    found = answer_json(answer)
    lines: list[str] = []
    for name in ("actions", "desired"):
        if name in expect:
            lines += _compare(name, expect[name], found[name])
    if bool(expect.get("error", False)) != (answer.error is not None):
        lines.append(
            f"error: expected {'one' if expect.get('error') else 'none'}, got {answer.error or 'none'}"
        )
    return lines


def _compare(path: str, expected: object, found: object) -> list[str]:
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        lines: list[str] = []
        for name in sorted({*expected, *found}):
            inner = f"{path}.{name}"
            if name not in found:
                lines.append(f"{inner}: expected {_text(expected[name])}, got nothing")
            elif name not in expected:
                lines.append(f"{inner}: expected nothing, got {_text(found[name])}")
            else:
                lines += _compare(inner, expected[name], found[name])
        return lines
    if _is_same(expected, found):
        return []
    return [f"{path}: expected {_text(expected)}, got {_text(found)}"]


def _is_same(expected: object, found: object) -> bool:
    if isinstance(expected, bool) or isinstance(found, bool):
        return expected is found
    if isinstance(expected, int | float) and isinstance(found, int | float):
        if isinstance(expected, int) and isinstance(found, int):
            return expected == found
        return _to_single(expected) == _to_single(found)
    return expected == found


def _to_single(value: float) -> float:
    """The value in single precision; beyond its range, infinity."""
    try:
        (single,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return float(single)


def _text(value: object) -> str:
    """A value of either side as short text; recorded ones come from outside, so they are cut and escaped."""
    text = ascii(value)
    return text if len(text) <= 200 else text[:199] + "…"
