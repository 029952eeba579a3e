"""The command line's root: errors in a line, exit statuses, commands imported when they are named."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from app.cli import root
from app.errors import (
    ConfigurationError,
    InvalidInput,
    PeerTimedOut,
    StoreUnavailable,
    UsageError,
    VmscalerError,
)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[BaseException]]:
    """A command `fail` that raises what is put in the list, or returns 7."""
    errors: list[BaseException] = []

    @click.command("fail")
    def fail() -> int:
        if errors:
            raise errors[0]
        return 7

    root.root.add_command(fail)
    monkeypatch.setattr(root.LazyGroup, "get_command", click.Group.get_command)
    yield errors
    del root.root.commands["fail"]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UsageError("no VM is called x"), 2),
        (ConfigurationError([".a: b", ".c: d"], source="f.json"), 2),
        (StoreUnavailable("Redis", "gives no answer"), 3),
        (PeerTimedOut("scheduler", "no answer in 2 s"), 1),
        (InvalidInput("f:3", "not JSON"), 1),
    ],
)
def test_an_error_is_one_line_and_a_status(
    error: VmscalerError, status: int, failing: list[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    failing.append(error)
    assert root.run(["fail"]) == status
    assert capsys.readouterr() == ("", f"vmscaler: {error}\n")


def test_an_error_with_escapes_and_line_breaks_stays_one_harmless_line(
    failing: list[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    failing.append(UsageError("bad\n\x1b[31mname‮"))
    assert root.run(["fail"]) == 2
    assert capsys.readouterr().err == "vmscaler: bad \\x1b[31mname\\u202e\n"


def test_an_interruption_is_quiet(failing: list[BaseException], capsys: pytest.CaptureFixture[str]) -> None:
    failing.append(KeyboardInterrupt())
    assert root.run(["fail"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_a_command_may_return_its_status(failing: list[BaseException]) -> None:
    assert failing == []
    assert root.run(["fail"]) == 7


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["--nonsense"], ["config", "check"], ["config", "nonsense"]]
)
def test_wrong_usage_is_one_line_and_status_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert root.run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("vmscaler: ")
    assert err.count("\n") == 1


def test_the_help_lists_the_commands_and_the_guest(capsys: pytest.CaptureFixture[str]) -> None:
    assert root.run(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"  {name} " in out for name in ("config", "status", "vm", "guest"))


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert root.run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("vmscaler ")


def test_listing_the_commands_imports_none_of_what_they_need() -> None:
    script = (
        "import sys; from app.cli.root import run; run(['--help'])\n"
        "heavy = {'pydantic', 'redis', 'celery', 'kombu', 'rich', 'requests', 'yaml', 'gevent'}\n"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_reader_that_has_gone_leaves_no_traceback() -> None:
    script = "import sys; from app.cli.root import run; sys.exit(run(['config', 'reference']))"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=60) == 1
