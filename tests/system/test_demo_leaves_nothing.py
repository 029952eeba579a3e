"""Whatever ends a demo, none of its processes stays, and nothing of its directory."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.cli.demo_setup import make_directory

PATIENCE_S = 60.0
PROCESSES = 8
"""Redis, fleet, metrics page, scheduler, two workers, beat, Flower."""


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.1)


def processes_of(runtime: Path) -> set[int]:
    """Every process that knows the demo's place: by its environment, or by its arguments."""
    found = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            text = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if state not in "ZX" and os.fsencode(runtime) in text:
            found.add(int(entry.name))
    return found


@pytest.fixture
def runtime() -> Iterator[Path]:
    directory = make_directory({})
    yield directory
    for pid in processes_of(directory):
        os.kill(pid, signal.SIGKILL)
    shutil.rmtree(directory, ignore_errors=True)


def start(runtime: Path, *prefix: str, seconds: str = "") -> subprocess.Popen[bytes]:
    environment = os.environ | {"XDG_RUNTIME_DIR": str(runtime), "DEMO_SECONDS": seconds}
    command = [*prefix, sys.executable, "-m", "app.main", "demo", "--vms", "2", "--stop-with-parent"]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)


def has_started(runtime: Path) -> bool:
    """All processes have been started at least once: each has its log."""
    return len(list(runtime.glob("*/logs/*.log"))) > PROCESSES


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_nothing_is_left_of_a_demo_that_a_signal_ended(runtime: Path, number: signal.Signals) -> None:
    demo = start(runtime)
    wait_for(lambda: has_started(runtime), "all processes start")
    assert len(processes_of(runtime)) >= 5
    demo.send_signal(number)
    status = demo.wait(PATIENCE_S)
    assert status == (-number if number == signal.SIGKILL else 0)
    wait_for(lambda: not processes_of(runtime), "all processes end")
    wait_for(lambda: not list(runtime.iterdir()), "the directory is removed")


def test_a_demo_ends_when_the_process_that_started_it_is_killed(runtime: Path) -> None:
    parent = start(runtime, sys.executable, "-c", "import subprocess, sys; subprocess.call(sys.argv[1:])")
    wait_for(lambda: has_started(runtime), "all processes start")
    parent.kill()
    parent.wait()
    wait_for(lambda: not processes_of(runtime), "all processes end")
    wait_for(lambda: not list(runtime.iterdir()), "the directory is removed")


def test_a_demo_that_was_stopped_before_its_time_says_so(runtime: Path) -> None:
    demo = start(runtime, seconds="600")
    wait_for(lambda: has_started(runtime), "all processes start")
    demo.send_signal(signal.SIGINT)
    assert demo.wait(PATIENCE_S) == 128 + signal.SIGINT
    wait_for(lambda: not processes_of(runtime), "all processes end")
