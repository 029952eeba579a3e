from __future__ import annotations

import logging
from dataclasses import fields

import pytest

from app.bootstrap.worker import agent_settings
from app.config import Settings, build_settings
from app.core.resources import resources
from app.errors import ConfigurationError
from app.services.recorder import LiveStep, Recorder
from app.services.reloading import Reloading
from app.services.script_writing import ScriptWriter
from tests.fakes.clock import FakeClock
from tests.service_builders import a_runner, load_of, some_settings


class File:
    """What the next look at the file gives."""

    def __init__(self) -> None:
        self.settings = build_settings({}, {})
        self.problems: list[str] = []
        self.applied: list[Settings] = []

    def write(self, document: dict[str, object]) -> None:
        self.settings, self.problems = build_settings(document, {}), []

    def load(self) -> Settings:
        if self.problems:
            raise ConfigurationError(self.problems, source="vmscaler.yaml")
        return self.settings


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, object]]:
    found = [
        (record.levelname, record.getMessage(), getattr(record, "setting", getattr(record, "problem", None)))
        for record in caplog.records
    ]
    caplog.clear()
    return found


@pytest.fixture
def file(caplog: pytest.LogCaptureFixture) -> File:
    caplog.set_level(logging.INFO, "app.services.reloading")
    return File()


def test_what_is_taken_over_is_applied_and_both_kinds_are_named(
    file: File, caplog: pytest.LogCaptureFixture
) -> None:
    reloading = Reloading(file.settings, file.load, file.applied.append)
    file.write({"logging": {"level": "debug"}, "web": {"port": 1}})
    reloading.reload()
    (applied,) = file.applied
    assert (applied.logging.level, applied.web.port) == ("debug", 9100)
    assert said(caplog) == [
        ("INFO", "setting taken over", ".logging.level"),
        ("WARNING", "a changed setting needs a restart", ".web.port"),
        ("INFO", "configuration reloaded", None),
    ]


def test_a_file_with_a_mistake_changes_nothing_and_is_one_error(
    file: File, caplog: pytest.LogCaptureFixture
) -> None:
    reloading = Reloading(file.settings, file.load, file.applied.append)
    file.problems = [".web.port: must be a whole number", ".x: unknown"]
    reloading.reload()
    assert file.applied == []
    assert said(caplog) == [
        ("ERROR", "configuration not reloaded: the values in force stay", ".web.port: must be a whole number")
    ]
    file.write({"logging": {"level": "debug"}})
    reloading.reload()
    assert len(file.applied) == 1


def test_an_unchanged_file_applies_nothing(file: File, caplog: pytest.LogCaptureFixture) -> None:
    reloading = Reloading(file.settings, file.load, file.applied.append)
    reloading.reload()
    assert file.applied == []
    assert said(caplog) == [("INFO", "configuration reloaded", None)]


def test_every_value_of_a_workers_settings_is_taken_over_in_place() -> None:
    settings = some_settings()
    seen_by_services = settings
    document: dict[str, object] = {
        "metrics": {"requestTimeoutSeconds": 1.5, "loadMetricPrefix": "host_"},
        "scaling": {"applyTimeoutSeconds": 7},
        "monitor": {"connectionTimeoutSeconds": 3},
    }
    newer = agent_settings(build_settings(document, {}), "worker1")
    settings.take_over(newer)
    assert [getattr(seen_by_services, field.name) for field in fields(newer)] == [
        getattr(newer, field.name) for field in fields(newer)
    ]
    assert (seen_by_services.metrics_prefix, seen_by_services.apply_timeout_s) == ("host_", 7)


def test_a_live_vm_is_decided_by_the_new_targets_and_keeps_its_state() -> None:
    settings = some_settings()
    runner = a_runner(FakeClock(), settings=settings)
    runner.take_sample(load_of(2))
    assert runner.decide().desired == resources(2_000, 8)
    document: dict[str, object] = {"scaling": {"defaultConfig": {"loadAverageFractionTarget": 1.0}}}
    settings.take_over(agent_settings(build_settings(document, {}), "worker1"))
    permit = runner.state.plugin.permit
    runner.settings_changed()
    assert runner.decide().desired == resources(1_000, 4)
    assert runner.state.plugin.permit == permit


class Steps:
    def __init__(self) -> None:
        self.taken: list[LiveStep] = []

    def put(self, step: LiveStep) -> None:
        self.taken.append(step)


def test_a_recording_goes_on_in_a_script_of_the_new_settings() -> None:
    settings = some_settings()
    runner = a_runner(FakeClock(), settings=settings)
    runner.recorder, steps = Recorder(), Steps()
    runner.recorder.listeners.append(steps)
    runner.take_sample(load_of(2))
    settings.take_over(agent_settings(build_settings({}, {}), "worker1"))
    runner.settings_changed()
    runner.decide()
    pieces = ScriptWriter("default/db worker1").write(steps.taken)
    assert len(pieces) == 2
    assert b'"op":"new"' in pieces[1].steps
