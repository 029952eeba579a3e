"""Pieces of the fleet that need no socket: change log, state file, journal, page, options."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from app.adapters.journal_file import JournalFile
from app.cli.sim import parse_fault, parse_mix, parse_trace_vms, sim_command
from app.core.resources import resources
from app.errors import ConfigurationError
from app.fleet.change_log import REMEMBERED_REMOVALS, ChangeLog
from app.fleet.node_page import PAGE_KINDS, NodePage, broken_kind, broken_page
from app.fleet.state_file import SavedFleet, SavedVm, load_state, save_state
from app.simulation.faults import Fault
from app.simulation.fleet_plan import plan_fleet
from app.simulation.profiles import PROFILE_LOADS, Profile
from app.simulation.vm_model import VmModel

_SAVED = SavedVm(
    "uid", 4711, resources(500, 2), resources(250, 1), resources(250, 1), resources(4000, 8), True, 9, 3
)


def _page() -> bytes:
    plan = plan_fleet(1, 1)[0]
    return NodePage().render(VmModel(plan.workload, plan.first, plan.slot_bytes))


def test_a_cursor_sees_what_came_after_it_and_each_vm_once() -> None:
    log = ChangeLog("e")
    for key in ("a", "b", "c"):
        log.mark(key)
    cursor = log.since("").cursor
    log.mark("b")
    log.mark("b")
    log.remove("c")
    changes = log.since(cursor)
    assert (changes.is_full, changes.updated, changes.removed) == (False, ("b",), ("c",))
    assert log.since(changes.cursor).updated == ()


def test_a_vm_that_comes_back_is_not_removed() -> None:
    log = ChangeLog("e")
    log.mark("a")
    cursor = log.since("").cursor
    log.remove("a")
    log.mark("a")
    assert log.since(cursor).removed == ()
    assert log.since(cursor).updated == ("a",)


@pytest.mark.parametrize("cursor", ["", "x", "other.0", "e.99", "e.-1", "e.", "e.1e3", "e." + "9" * 40])
def test_a_foreign_or_impossible_cursor_gets_everything(cursor: str) -> None:
    log = ChangeLog("e")
    log.mark("a")
    changes = log.since(cursor)
    assert (changes.is_full, changes.updated) == (True, ("a",))


def test_removals_are_remembered_to_a_bound_and_an_older_cursor_gets_everything() -> None:
    log = ChangeLog("e")
    log.mark("stays")
    old = log.since("").cursor
    for number in range(REMEMBERED_REMOVALS + 1):
        log.mark(f"vm-{number}")
        log.remove(f"vm-{number}")
    assert log.since(old).is_full
    recent = log.since("").cursor
    log.remove("stays")
    assert log.since(recent).removed == ("stays",)


def test_the_state_file_gives_back_what_was_saved(tmp_path: Path) -> None:
    saved = SavedFleet(3, 12.5, {"sim/a": _SAVED}, ("sim/gone",))
    save_state(tmp_path, saved)
    assert load_state(tmp_path, 3) == saved
    assert [path.name for path in tmp_path.iterdir()] == ["fleet.json"]


def test_the_state_of_another_seed_is_a_new_beginning(tmp_path: Path) -> None:
    save_state(tmp_path, SavedFleet(3, 12.5, {"sim/a": _SAVED}))
    assert load_state(tmp_path, 4) == SavedFleet(4)
    assert load_state(tmp_path / "none", 4) == SavedFleet(4)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"version": 1}', '{"version": 1, "vms": {"a": 1}}', "null"])
def test_a_state_file_that_is_none_is_a_configuration_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "fleet.json").write_text(text)
    with pytest.raises(ConfigurationError, match=r"fleet\.json"):
        load_state(tmp_path, 1)


def test_the_journal_appends_and_writes_nothing_after_its_end(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    for number in (1, 2):
        journal = JournalFile(path)
        journal.write(number=number)
        journal.close()
        journal.write(number=99)
    assert [json.loads(line)["number"] for line in path.read_text().splitlines()] == [1, 2]
    JournalFile(None).write(number=3)


def test_the_page_holds_names_that_are_easily_confused() -> None:
    text = _page().decode()
    assert text.index("\nnode_load15 ") < text.index("\nnode_load5 ")
    assert 'mountpoint="/sys/kernel/node_load1"' in text
    assert "# HELP node_load1 " in text


@pytest.mark.parametrize("kind", PAGE_KINDS)
def test_each_kind_of_rubbish_differs_from_the_page(kind: str) -> None:
    page = _page()
    broken = broken_page(page, kind)
    assert broken != page
    starts = [line.split(b" ")[0] for line in broken.split(b"\n")]
    values = dict(line.split(b" ", 1) for line in broken.split(b"\n") if line.startswith(b"node_load1 "))
    total_missing = b"node_load1" not in starts
    available = [line for line in broken.split(b"\n") if line.startswith(b"node_memory_MemAvailable_bytes ")]
    is_rubbish = total_missing or values[b"node_load1"] == b"NaN" or available[0].endswith((b"-1", b"9e+18"))
    assert is_rubbish


def test_the_kind_of_rubbish_changes_with_time_only_by_its_seed() -> None:
    kinds = [broken_kind(1, "sim/a", age) for age in range(0, 2_000, 10)]
    assert set(kinds) == set(PAGE_KINDS)
    assert kinds == [broken_kind(1, "sim/a", age + 9) for age in range(0, 2_000, 10)]


def test_a_mix_and_a_fault_are_read_from_the_command_line() -> None:
    assert parse_mix("steady=3, spike=0.5,idle") == {
        Profile.STEADY: 3.0,
        Profile.SPIKE: 0.5,
        Profile.IDLE: 1.0,
    }
    assert parse_fault("slow-page") == (Fault.SLOW_PAGE, 1.0)
    assert parse_fault("slow-page:0.25") == (Fault.SLOW_PAGE, 0.25)


def test_the_help_names_every_profile_and_every_profile_can_be_asked_for() -> None:
    shown = CliRunner().invoke(sim_command, ["--help"]).output
    for profile in Profile:
        assert f"  {profile.value}: {PROFILE_LOADS[profile]}" in shown
        assert parse_mix(f"{profile.value}=2") == {profile: 2.0}


def test_a_share_and_names_of_vms_are_read_from_the_command_line() -> None:
    assert parse_trace_vms("0.25") == (0.25, ())
    assert parse_trace_vms("0") == (0.0, ())
    assert parse_trace_vms("web-002, sim/db-001") == (1.0, ("web-002", "sim/db-001"))


@pytest.mark.parametrize("text", ["", " ", "2", "-1", "nan", "web-002,", ",", "0.5;"])
def test_neither_a_share_nor_names_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        parse_trace_vms(text)


@pytest.mark.parametrize("text", ["", "fast=1", "steady=-1", "steady=x", "steady=0", "steady=nan"])
def test_a_mix_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        parse_mix(text)


@pytest.mark.parametrize("text", ["", "none", "slow-page:2", "slow-page:x", "slow-page:-1"])
def test_a_fault_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        parse_fault(text)


@pytest.mark.parametrize(
    ("content", "mode", "words"),
    [(b"s3cret", 0o644, "chmod 600"), (b"", 0o600, "empty"), (b"\xff\xfe", 0o600, "can't be read")],
)
def test_a_token_file_that_is_open_to_others_or_holds_none_is_refused(
    tmp_path: Path, content: bytes, mode: int, words: str
) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    path.chmod(mode)
    done = CliRunner().invoke(sim_command, ["--token-file", str(path)])
    assert done.exit_code == 2
    assert words in done.output
