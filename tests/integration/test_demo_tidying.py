"""What is left of a demo's private directory at its end."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from app.cli.demo import tidy
from app.cli.demo_setup import DemoSetup, make_directory, prepare


@pytest.fixture
def setup() -> Iterator[DemoSetup]:
    parent = make_directory({})
    setup = prepare(2, {"XDG_RUNTIME_DIR": str(parent)})
    (setup.logs / "worker1.log").write_text("last words\n")
    yield setup
    for port in (setup.ports.flower, setup.ports.control, setup.ports.metrics):
        port.close()
    shutil.rmtree(parent)


def test_nothing_is_left_of_a_demo_that_ended_well(setup: DemoSetup) -> None:
    tidy(setup, keep_logs=False)
    assert not setup.directory.exists()


def test_only_the_logs_are_left_of_one_that_failed(setup: DemoSetup) -> None:
    tidy(setup, keep_logs=True)
    assert list(setup.directory.iterdir()) == [setup.logs]
    assert (setup.logs / "worker1.log").read_text() == "last words\n"


@pytest.mark.parametrize("keep_logs", [True, False])
def test_a_directory_that_somebody_else_removed_is_no_error(setup: DemoSetup, keep_logs: bool) -> None:
    shutil.rmtree(setup.directory)
    tidy(setup, keep_logs=keep_logs)
    assert not setup.directory.exists()
