from __future__ import annotations

import json

import pytest

from app.services.event_script import read_script
from app.services.replay import Answer, differences, run_script, script_json
from tests.script_builders import UNIT, USE, Json, a_new, a_script, an_event, settled

AT_REST: Json = {"actions": {"wait_ms": 5000}, "desired": USE}
SAMPLE: Json = {"load1": 0.1, "load5": 0.1, "mem_bytes": 1e9}


def answers(script: Json) -> list[Answer]:
    return list(run_script(read_script(script)))


def last_differences(script: Json) -> list[str]:
    return differences(answers(script)[-1])


def test_each_step_gets_actions_desired_error_and_reasons() -> None:
    found = script_json(
        read_script(a_script(*settled(), an_event("metrics", 1_000, metrics={**SAMPLE, "load1": 1})))
    )
    assert found["id"] == "s1"
    steps = json.loads(json.dumps(found))["steps"]
    assert [sorted(step) for step in steps] == [["actions", "desired", "error", "reasons"]] * 6
    assert steps[1]["actions"] == {"plugin_request": {"last_permit": None, "target": USE, "metrics": None}}
    assert steps[4] == {**AT_REST, "error": None, "reasons": []}
    assert steps[5]["actions"]["plugin_request"]["target"] == {"cpu_m": 2000, "mem": 8}
    assert steps[5]["actions"]["plugin_request"]["last_permit"] == USE
    assert steps[5]["reasons"]


def test_resizes_are_told_with_where_they_begin_and_end() -> None:
    calm = an_event("metrics", metrics={**SAMPLE, "load1": 0.25})
    found = answers(
        a_script(*settled(), calm, an_event("platform.observed", resources={"cpu_m": 1250, "mem": 5}))
    )
    actions = json.loads(json.dumps(script_json(read_script(a_script(*settled(), calm)))))["steps"][-1][
        "actions"
    ]
    assert actions["monitor_downscale"] == {"current": USE, "target": {"cpu_m": 500, "mem": 2}}
    assert found[-1].actions.platform is not None


def test_a_refused_event_is_an_error_and_the_script_goes_on() -> None:
    found = answers(
        a_script(a_new(), an_event("monitor.downscale_allowed"), an_event("plugin.new_scheduler"))
    )
    assert found[1].error == "answer to a monitor downscale: no monitor request is ongoing"
    assert found[1].state is found[0].state
    assert found[2].error is None


def test_an_observed_vm_has_a_desired_size_and_no_actions() -> None:
    told = an_event("mode", mode="observe", compute_unit=UNIT)
    found = answers(a_script(a_new(), told, an_event("metrics", metrics={**SAMPLE, "load1": 1.0})))[-1]
    assert not found.actions.has_requests
    assert found.actions.desired is not None
    assert found.actions.desired.cpu == 2_000


def test_an_answer_as_recorded_does_not_differ() -> None:
    assert last_differences(a_script(*settled(), expects={4: AT_REST})) == []


def test_a_step_with_nothing_recorded_does_not_differ() -> None:
    assert last_differences(a_script(*settled())) == []


@pytest.mark.parametrize(
    ("expect", "line"),
    [
        ({**AT_REST, "actions": {"wait_ms": 1}}, "actions.wait_ms: expected 1, got 5000"),
        ({**AT_REST, "actions": {}}, "actions.wait_ms: expected nothing, got 5000"),
        ({**AT_REST, "actions": {"wait_ms": 5000, "x": 1}}, "actions.x: expected 1, got nothing"),
        ({**AT_REST, "desired": {"cpu_m": 1000, "mem": 5}}, "desired.mem: expected 5, got 4"),
        ({**AT_REST, "desired": None}, "desired: expected None, got {'cpu_m': 1000, 'mem': 4}"),
        ({**AT_REST, "actions": {"wait_ms": True}}, "actions.wait_ms: expected True, got 5000"),
        ({**AT_REST, "error": True}, "error: expected one, got none"),
    ],
)
def test_a_difference_is_told_by_its_field(expect: Json, line: str) -> None:
    assert last_differences(a_script(*settled(), expects={4: expect})) == [line]


def test_an_unexpected_refusal_is_a_difference() -> None:
    script = a_script(a_new(), an_event("platform.success"), expects={1: {"actions": {}, "desired": USE}})
    assert last_differences(script) == [
        "error: expected none, got platform successful: no platform request is ongoing"
    ]


@pytest.mark.parametrize(
    ("recorded", "differs"), [(0.1, False), (0.10000000149011612, False), (0.1000001, True)]
)
def test_numbers_are_compared_in_single_precision(recorded: float, differs: bool) -> None:
    expect: Json = {
        "actions": {
            "plugin_request": {"last_permit": None, "target": USE, "metrics": {**SAMPLE, "load1": recorded}},
        },
        "desired": USE,
    }
    script = a_script(
        a_new(), an_event("plugin.new_scheduler"), an_event("metrics", metrics=SAMPLE), expects={2: expect}
    )
    assert bool(last_differences(script)) is differs


def test_a_recorded_number_beyond_single_precision_differs() -> None:
    expect: Json = {"actions": {"wait_ms": 1e300}, "desired": USE}
    assert last_differences(a_script(*settled(), expects={4: expect}))
    expect = {"actions": {"wait_ms": -1e300}, "desired": USE}
    assert last_differences(a_script(*settled(), expects={4: expect}))


def test_a_step_that_is_only_total_is_judged_by_the_properties_alone() -> None:
    script = a_script(a_new(), an_event("platform.success"), expects={1: {"total": True}})
    assert last_differences(script) == []
