"""VMs on this machine, with a program in QEMU's place: they outlive us, are found again, leave nothing."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from app.adapters.qemu_directory import VmDirectory, running_entries
from app.adapters.qemu_inventory import QemuInventory
from app.cli.vm import vm_group
from app.errors import ConfigurationError, UsageError
from tests.fakes import qemu_program
from tests.fleet_process import until


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state directory, an image of empty files, and the program on PATH; VMs left are killed."""
    image = tmp_path / "cache/vmscaler/images/abc"
    image.mkdir(parents=True)
    (image / "image.json").write_text('{"digest": "d"}')
    for name in ("vmlinuz", "initrd.img", "root.ext4"):
        (image / name).write_bytes(b"")
    (image.parent / "current").symlink_to("abc")
    program = tmp_path / "bin/qemu-system-x86_64"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {qemu_program.__file__} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    found = tmp_path / "state/vmscaler"
    yield found
    for directory in (found / "vms").glob("*"):
        pid = VmDirectory(directory).pid()
        if pid is not None:
            os.kill(pid, signal.SIGKILL)


def vm(*arguments: str) -> Result:
    return CliRunner().invoke(vm_group, list(arguments))


def done(*arguments: str) -> str:
    """The output of a command that must succeed."""
    result = vm(*arguments)
    assert result.exception is None, result.output
    return result.output


def directory(state: Path, name: str = "a") -> VmDirectory:
    return VmDirectory(state / "vms" / name)


def test_a_vm_is_created_started_found_again_stopped_and_deleted(state: Path) -> None:
    done("create", "a", "--max-cpu", "2", "--billing-id", "ep-1", "--label", "tier=web")
    assert json.loads(done("local", "--json"))["vms"][0]["state"] == "stopped"
    assert running_entries(state).entries == ()
    assert "started" in done("start", "a")
    assert "runs already" in done("start", "a")
    shown = json.loads(done("local", "--json"))["vms"][0]
    assert (shown["state"], shown["pid"]) == ("running", directory(state).pid())
    (entry,) = QemuInventory(None, state).read().entries.values()
    assert (entry.key, entry.billing_id, entry.labels) == ("local/a", "ep-1", {"tier": "web"})
    assert entry.guest == f"127.0.0.1:{shown['port']}"
    assert "stopped" in done("stop", "--all")
    assert running_entries(state).entries == ()
    assert "was not running" in done("stop", "a")
    done("delete", "a")
    assert list((state / "vms").iterdir()) == []


def test_only_its_user_can_enter_a_vm_s_directory_and_its_token_is_in_no_argument(state: Path) -> None:
    done("create", "a", "--start")
    place = directory(state)
    assert place.path.stat().st_mode & 0o777 == 0o700
    for name in ("token", "vm.json", "qemu.log", "port"):
        assert place.file(name).stat().st_mode & 0o077 == 0
    command = Path(f"/proc/{place.pid()}/cmdline").read_bytes()
    assert place.file("token").read_bytes() not in command


def test_a_qemu_that_was_killed_is_told_as_dead_and_can_be_started_again(state: Path) -> None:
    done("create", "a", "--start")
    pid = directory(state).pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until(lambda: not directory(state).is_running(), "its lock is free")
    assert json.loads(done("local", "--json"))["vms"][0]["state"] == "dead"
    # It should run, so it is in the inventory all the same.
    assert [each.key for each in running_entries(state).entries] == ["local/a"]
    assert "started" in done("start", "--all")
    assert directory(state).pid() not in (None, pid)


def test_a_qemu_that_does_not_end_is_killed(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_QEMU", "stays")
    monkeypatch.setattr("app.adapters.qemu_local.QUIT_LIMIT_S", 0.5)
    done("create", "a", "--start")
    assert "stopped" in done("stop", "a")
    assert not directory(state).is_running()


def test_a_qemu_that_ends_at_once_is_told_with_its_last_words(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_QEMU", "ends")
    done("create", "a")
    result = vm("start", "a")
    assert isinstance(result.exception, ConfigurationError)
    assert "QEMU ended at its start: qemu: there is no such accelerator" in str(result.exception)
    assert running_entries(state).entries == ()


def test_one_vm_that_can_t_be_started_keeps_no_other_from_it(state: Path) -> None:
    done("create", "a")
    done("create", "b")
    directory(state).file("vm.json").write_text("{}")
    result = vm("start", "--all")
    assert result.exception is not None
    assert "vm.json" in str(result.exception)
    assert directory(state, "b").is_running()


def test_a_description_that_breaks_takes_no_running_vm_away(state: Path) -> None:
    done("create", "a", "--start")
    inventory = QemuInventory(None, state)
    before = inventory.read().entries
    directory(state).file("vm.json").write_text("no json")
    known = inventory.read()
    assert known.entries == before
    assert [problem.subject for problem in known.problems] == ["local/a"]


def test_a_missing_qemu_is_one_line_with_what_to_install(
    state: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done("create", "a")
    monkeypatch.setenv("PATH", str(tmp_path))
    result = vm("start", "a")
    assert str(result.exception).endswith("as root: apt-get install qemu-system-x86")


def test_a_missing_image_is_one_line_with_what_to_run(state: Path, tmp_path: Path) -> None:
    (tmp_path / "cache/vmscaler/images/current").unlink()
    result = vm("create", "a")
    assert str(result.exception).endswith("run: vmscaler image build")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["../x"], "name: must be 1 to 63 small letters"),
        (["a" * 64], "name: must be 1 to 63 small letters"),
        (["a,b"], "name: must be"),
        (["a", "--min-cpu", "8"], "min must not be above max"),
        (["a", "--max-memory", "x"], "max.memory: must be a quantity of bytes"),
        (["a", "--min-memory", "128Mi"], "min.memory must be at least 192Mi"),
        (
            ["a", "--slot", "100Mi", "--min-memory", "500Mi", "--max-memory", "1000Mi"],
            "slot must be a multiple",
        ),
        (["a", "--max-cpu", "300"], "max.cpu must be at most 255"),
        (["a", "--label", "x"], "--label takes NAME=VALUE"),
    ],
)
def test_a_vm_that_could_not_be_started_is_not_created(
    state: Path, arguments: list[str], problem: str
) -> None:
    result = vm("create", *arguments)
    assert isinstance(result.exception, UsageError)
    assert problem in str(result.exception)
    assert not (state / "vms").exists()


def test_a_name_is_given_once(state: Path) -> None:
    done("create", "a")
    token = directory(state).file("token").read_text()
    assert isinstance(vm("create", "a").exception, UsageError)
    assert directory(state).file("token").read_text() == token
    assert [path.name for path in (state / "vms").iterdir()] == ["a"]


@pytest.mark.parametrize("command", ["start", "stop", "delete"])
def test_names_or_all_must_be_given_and_be_known(state: Path, command: str) -> None:
    assert isinstance(vm(command).exception, UsageError)
    assert isinstance(vm(command, "--all", "a").exception, UsageError)
    assert isinstance(vm(command, "none").exception, UsageError)
    assert vm(command, "--all").exception is None


def test_a_load_is_put_on_a_vm_told_and_ended(state: Path) -> None:
    done("create", "a", "--start")
    assert done("load", "a") == "a: no load\n"
    said = done("load", "a", "--cpu", "3", "--memory", "600M", "--for", "60s")
    assert said == "a: 3 CPU, 572 MiB, 12 more each second, for 60 s\n"
    assert done("load", "local/a") == "local/a: loaded for another 60 s\n"
    assert done("load", "a", "--stop") == "a: no load\n"
    assert done("load", "a") == "a: no load; the last one: ended by signal 9\n"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--cpu", "0"], "must be above zero"),
        (["--memory", "x"], "--memory"),
        (["--cpu", "1", "--for", "0"], "above zero"),
        (["--cpu", "1", "--stop"], "--stop takes no amount"),
        (["--cpu", "1"], "a is not running"),
    ],
)
def test_a_load_that_makes_no_sense_is_refused(state: Path, arguments: list[str], problem: str) -> None:
    done("create", "a")
    if "running" not in problem:
        done("start", "a")
    result = vm("load", "a", *arguments)
    assert result.exception is not None
    assert problem in result.output + str(result.exception)
