"""Processes of the chaos test: which of their ends are those that were asked for."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree

import pytest

from app.adapters.processes import GuardedLauncher
from app.ports.processes import ProcessSpec
from tests.chaos.notebook import Notebook
from tests.chaos.world import Child
from tests.fleet_process import until

DEAF = "print('up', flush=True); import time; time.sleep(600)"
LISTENS = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: {then}); " + DEAF
DIES = "(signal.signal(signal.SIGTERM, signal.SIG_DFL), signal.raise_signal(signal.SIGTERM))"


@pytest.fixture
def directory() -> Iterator[Path]:
    found = Path(tempfile.mkdtemp(prefix="vmscaler-"))
    yield found
    rmtree(found)


def crashes_of(directory: Path, program: str) -> list[str]:
    """What a child that is told to end is blamed for."""
    log = directory / "log"
    spec = ProcessSpec("worker1", (sys.executable, "-c", program), dict(os.environ), directory, log)
    child = Child(GuardedLauncher(directory / "guarded"), spec, Notebook(directory / "notes"))
    child.is_kept = False
    child.start()
    until(lambda: log.exists() and "up" in log.read_text(), "it is up")
    child.terminate()

    def has_ended() -> bool:
        child.tick()
        return child.pid is None

    until(has_ended, "it ends")
    return child.crashes


def test_a_process_that_ends_as_it_was_told_is_not_blamed(directory: Path) -> None:
    assert crashes_of(directory, LISTENS.format(then="sys.exit(0)")) == []


def test_a_process_that_could_not_listen_yet_is_not_blamed(directory: Path) -> None:
    assert crashes_of(directory, DEAF) == []


@pytest.mark.parametrize(("then", "end"), [(DIES, "killed by SIGTERM"), ("sys.exit(3)", "exit status 3")])
def test_a_process_that_listened_and_ends_otherwise_is_blamed(directory: Path, then: str, end: str) -> None:
    assert crashes_of(directory, LISTENS.format(then=then)) == [end]
