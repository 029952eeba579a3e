from __future__ import annotations

import io

import pytest
from rich.console import Console

from app.cli.demo_output import LiveScreen, PlainLines
from app.cli.demo_report import Tally
from tests.fakes.demo_views import child, demo_facts, fleet_view, vm_row


def test_plain_lines_are_one_per_resize_and_one_each_five_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    lines, tally = PlainLines(), Tally()
    with lines:
        for second in range(12):
            view = fleet_view([vm_row(counters={"upscales": 1 if second >= 3 else 0})])
            lines.show(demo_facts(view, elapsed_s=float(second)), tally, tally.take(view, float(second)))
    where, *printed = capsys.readouterr().out.splitlines()
    assert where.startswith("Flower http://")
    assert [line.split()[0] for line in printed] == ["0.0s", "3.0s", "5.0s", "10.0s"]
    assert "upscale" in printed[1]
    assert "1 up, 0 down; 1 VM" in printed[2]


def test_a_note_is_told_when_it_changes(capsys: pytest.CaptureFixture[str]) -> None:
    lines = PlainLines()
    for second, note in enumerate(("nproc 1", "nproc 1", "nproc 2", "nproc 1")):
        lines.show(demo_facts(None, elapsed_s=float(second), notes=("other", note)), Tally(), ())
    told = [line for line in capsys.readouterr().out.splitlines() if "nproc" in line]
    assert told == ["   0.0s nproc 1", "   2.0s nproc 2", "   3.0s nproc 1"]


def test_a_process_started_again_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    lines, tally = PlainLines(), Tally()
    children = (child("redis"), child("beat", restarts=1, last_end="killed by SIGKILL"))
    for second in (1.0, 2.0):
        lines.show(demo_facts(None, elapsed_s=second, children=children), tally, ())
    told = [line for line in capsys.readouterr().out.splitlines() if "started again" in line]
    assert told == ["   1.0s beat had ended (killed by SIGKILL), started again"]


def test_the_live_screen_writes_over_itself_without_clearing() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=100, height=20, legacy_windows=False)
    screen = LiveScreen(console)
    with screen:
        screen.show(demo_facts(None, absence="first"), Tally(), ())
        before = len(stream.getvalue())
        screen.show(demo_facts(None, absence="second"), Tally(), ())
        redrawn = stream.getvalue()[before:]
    assert "second" in redrawn
    assert "\x1b[2J" not in redrawn
    assert redrawn.count("\n") < 20
    assert stream.getvalue().endswith("\x1b[?25h\x1b[?1049l")


def test_the_terminal_comes_back_when_drawing_fails() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=100, height=20, legacy_windows=False)
    with pytest.raises(ZeroDivisionError), LiveScreen(console):
        raise ZeroDivisionError
    assert "\x1b[?1049l" in stream.getvalue()
