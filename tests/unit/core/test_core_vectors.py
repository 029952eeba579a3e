"""The recorded scripts, each as a test of its own."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from app.services.event_script import Script
from app.services.replay import differences, run_script
from app.services.script_source import read_scripts

VECTORS = Path(__file__).parents[2] / "data" / "core.jsonl.gz"


def all_scripts() -> list[Script]:
    with VECTORS.open("rb") as stream:
        assert isinstance(stream, io.BufferedReader)
        return [script for _, script in read_scripts(stream, VECTORS.name)]


SCRIPTS = all_scripts()


def test_the_file_is_whole() -> None:
    assert len(SCRIPTS) == 160
    assert sum(len(script.steps) for script in SCRIPTS) == 6225


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.script_id)
def test_a_recorded_script_gets_its_recorded_answers(script: Script) -> None:
    found = {
        index: lines for index, answer in enumerate(run_script(script)) if (lines := differences(answer))
    }
    assert found == {}


def test_every_step_has_a_recorded_answer_to_compare_with() -> None:
    assert all(step.expect is not None for script in SCRIPTS for step in script.steps)
