"""Real processes: what is left of them when their supervisor ends, one way or the other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.adapters.processes import GuardedLauncher
from app.ports.processes import ProcessSpec

PATIENCE_S = 30.0

# Starts a child that has a child of its own, then writes both ids and waits.
FAMILY = """
import os, subprocess, sys, time
grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(os.getpid(), grandchild.pid, flush=True)
time.sleep(600)
"""

SUPERVISOR = """
import sys, time
from pathlib import Path
from app.adapters.processes import GuardedLauncher
from app.ports.processes import ProcessSpec
directory = Path(sys.argv[1])
launcher = GuardedLauncher(directory)
argv = (sys.executable, "-c", sys.argv[2])
launcher.start(ProcessSpec("family", argv, {}, Path("/"), directory / "family.log"))
time.sleep(600)
"""


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that is dead and not yet reaped does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def family_of(log: Path) -> list[int]:
    wait_for(lambda: log.exists() and log.read_text().endswith("\n"))
    return [int(word) for word in log.read_text().split()]


@pytest.fixture
def private(tmp_path: Path) -> Path:
    directory = tmp_path / "private"
    directory.mkdir(mode=0o700)
    return directory


@pytest.fixture
def launcher(private: Path) -> Iterator[GuardedLauncher]:
    launcher = GuardedLauncher(private)
    yield launcher
    launcher.close()


def family(private: Path) -> ProcessSpec:
    return ProcessSpec("family", (sys.executable, "-c", FAMILY), {}, private, private / "family.log")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_remains_of_a_supervisor_that_a_signal_ended(private: Path, number: signal.Signals) -> None:
    supervisor = subprocess.Popen([sys.executable, "-c", SUPERVISOR, str(private), FAMILY])
    pids = family_of(private / "family.log")
    assert all(map(is_alive, pids))
    supervisor.send_signal(number)
    supervisor.wait()
    wait_for(lambda: not any(map(is_alive, pids)))
    wait_for(lambda: not private.exists())


def test_a_killed_child_takes_its_own_children_along(launcher: GuardedLauncher, private: Path) -> None:
    child = launcher.start(family(private))
    pids = family_of(private / "family.log")
    child.kill()
    wait_for(lambda: not any(map(is_alive, pids)))
    assert child.poll() == "killed by SIGKILL"


def test_what_a_dead_child_left_behind_is_swept(launcher: GuardedLauncher, private: Path) -> None:
    child = launcher.start(family(private))
    pids = family_of(private / "family.log")
    os.kill(child.pid, signal.SIGABRT)
    wait_for(lambda: child.poll() is not None)
    assert child.poll() == "killed by SIGABRT"
    wait_for(lambda: not any(map(is_alive, pids)))


def test_a_child_that_ends_by_itself_says_how(launcher: GuardedLauncher, private: Path) -> None:
    argv = (sys.executable, "-c", "raise SystemExit(3)")
    child = launcher.start(ProcessSpec("short", argv, {}, private, private / "short.log"))
    wait_for(lambda: child.poll() is not None)
    assert child.poll() == "exit status 3"
    child.terminate()
    child.kill()


def test_output_goes_to_a_log_that_only_its_owner_reads_and_nothing_is_inherited(
    launcher: GuardedLauncher, private: Path
) -> None:
    argv = (
        sys.executable,
        "-c",
        "import os, sys; print('PATH' in os.environ, flush=True); sys.exit('bad luck')",
    )
    child = launcher.start(ProcessSpec("talker", argv, {"LC_ALL": "C"}, private, private / "talker.log"))
    wait_for(lambda: child.poll() is not None)
    assert (private / "talker.log").read_text() == "False\nbad luck\n"
    assert (private / "talker.log").stat().st_mode & 0o777 == 0o600


def test_a_program_that_does_not_exist_is_an_error_of_the_start(
    launcher: GuardedLauncher, private: Path
) -> None:
    with pytest.raises(FileNotFoundError):
        launcher.start(ProcessSpec("none", ("/no/such/program",), {}, private, private / "none.log"))


def test_a_clean_end_leaves_the_directory_alone(private: Path) -> None:
    launcher = GuardedLauncher(private)
    launcher.close()
    assert private.is_dir()
