"""Another writer of a VM's size is named in its trail and as its last fact."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from app.core.resources import resources
from app.services.runner import Runner
from tests.fakes.clock import FakeClock
from tests.service_builders import a_runner


def audit(runner: Runner) -> list[dict[str, object]]:
    return [json.loads(entry) for entry in runner.audit.take()]


def test_another_writer_of_the_size_is_named_once() -> None:
    runner = a_runner(FakeClock())
    changed = replace(runner.vm, use=resources(2000, 4), use_writer="autoscaler-agent")
    runner.update_vm(changed)
    runner.update_vm(replace(changed, node="elsewhere"))
    (told,) = [entry for entry in audit(runner) if entry["kind"] == "other_writer"]
    assert "autoscaler-agent, has set the size to 2 CPU, 4 GiB" in str(told["why"])
    assert (told["from"], told["to"]) == ({"cpu_m": 1000, "mem": 4}, {"cpu_m": 2000, "mem": 4})
    assert runner.last is not None
    assert runner.last["kind"] == "other_writer"


@pytest.mark.parametrize("writer", ["vmscaler", None])
def test_our_own_changes_and_those_of_nobody_known_are_none_of_another_writer(writer: str | None) -> None:
    runner = a_runner(FakeClock())
    runner.update_vm(replace(runner.vm, use=resources(2000, 4), use_writer=writer))
    assert "other_writer" not in [entry["kind"] for entry in audit(runner)]


def test_a_writer_that_leaves_the_size_alone_is_not_told_of() -> None:
    runner = a_runner(FakeClock())
    runner.update_vm(replace(runner.vm, use_writer="kubectl"))
    assert audit(runner) == []


def test_one_that_sets_our_size_back_before_we_look_again_is_named_too() -> None:
    runner = a_runner(FakeClock())
    runner.update_vm(replace(runner.vm, overwrites=1, use_writer="autoscaler-agent"))
    (told,) = [entry for entry in audit(runner) if entry["kind"] == "other_writer"]
    assert "autoscaler-agent, has set the size back to 1 CPU, 4 GiB" in str(told["why"])
