from __future__ import annotations

import pytest

from app.errors import UsageError
from tests.core_builders import GIB
from tests.fakes.shown_fleet import ShownFleet
from tests.unit.cli.test_operator_commands import a_fleet, let_owner_take_up, run, run_json


def live(*keys: str) -> ShownFleet:
    fleet = a_fleet(*keys)
    fleet.on_sleep = lambda: let_owner_take_up(fleet)
    return fleet


def test_a_size_is_fixed_and_every_command_says_so() -> None:
    fleet = live("ns/a")
    arguments = ("--cpu", "3", "--memory", "6Gi", "--for", "1h", "--reason", "bulk load")
    _, output = run(fleet, "vm", "resize", "a", *arguments)
    assert output.startswith("ns/a: fixed by hand at 3 CPU, 6 GiB until 13:00:00 UTC (in 60 min)")
    assert output.endswith("taken up by the owner\n")
    assert "by hand" in run(fleet, "vm", "list")[1]
    assert "1 fixed by hand" in run(fleet, "status")[1]
    shown = run(fleet, "vm", "show", "a")[1]
    assert "by hand   3 CPU, 6 GiB by " in shown
    assert "bulk load" in shown
    explained = run(fleet, "explain", "a")[1]
    assert "fixed by hand at 3 CPU, 6 GiB by " in explained
    assert "else it may have 0.25 CPU, 1 GiB to 4 CPU, 16 GiB" in explained
    assert "→ 3 CPU, 6 GiB" in explained


def test_its_shape_is_stable() -> None:
    fleet = live("ns/a")
    shape = run_json(fleet, "vm", "resize", "a", "--memory", "6Gi")
    assert list(shape) == ["change", "size", "intent", "lifted", "notes", "taken_up", "vms", "waiting"]
    assert shape["size"] == {"cpu_m": None, "mem_bytes": 6 * GIB}
    assert shape["taken_up"] is True
    assert run_json(fleet, "vm", "show", "a")["fixed"]["mem_bytes"] == 6 * GIB


def test_it_is_taken_back_and_the_command_says_what_it_was() -> None:
    fleet = live("ns/a")
    run(fleet, "vm", "resize", "a", "--cpu", "3")
    _, output = run(fleet, "vm", "resize", "a", "--clear", "--reason", "done")
    assert output.startswith("ns/a: scaled by its load again (was fixed at 3 CPU by ")
    assert run_json(fleet, "vm", "show", "a")["fixed"] is None
    assert "nothing to take back" in run(fleet, "vm", "resize", "a", "--clear")[1]


def test_what_keeps_it_from_happening_is_said_at_once() -> None:
    fleet = live("ns/a")
    run(fleet, "pause", "a")
    run(fleet, "vm", "set", "a", "--mode", "observe")
    _, output = run(fleet, "vm", "resize", "a", "--cpu", "3")
    assert "it is only observed" in output
    assert "it is paused by " in output


def test_a_wish_that_no_owner_has_taken_up_shows_in_explain() -> None:
    fleet = a_fleet("ns/a")
    assert "no owner has taken it up yet" in run(fleet, "vm", "resize", "a", "--cpu", "3")[1]
    assert "resize to 3 CPU, wanted by " in run(fleet, "explain", "a")[1]
    let_owner_take_up(fleet)
    run(fleet, "vm", "resize", "a", "--clear")
    assert "scaling by load again" in run(fleet, "explain", "a")[1]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ["--cpu", "5"],
            "ns/a: 5.0 CPU is out of the VM's bounds: it may have 0.25 CPU, 1 GiB to 4 CPU, 16 GiB",
        ),
        (["--memory", "1500Mi"], "1 GiB or 2 GiB is possible"),
        ([], "give --cpu, --memory or both"),
        (["--clear", "--cpu", "1"], "--clear goes without"),
        (["--cpu", "1", "--for", "0s"], "above zero"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_recorded(arguments: list[str], text: str) -> None:
    fleet = a_fleet("ns/a")
    with pytest.raises(UsageError, match=text):
        run(fleet, "vm", "resize", "a", *arguments)
    assert fleet.standing == {}
