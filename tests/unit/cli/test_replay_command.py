from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from app.cli.replay import replay_command
from app.services.script_source import MAX_LINE_BYTES
from tests.script_builders import USE, Json, a_new, a_script, an_event, settled

VECTORS = Path(__file__).parents[2] / "data" / "core.jsonl.gz"
GOOD = a_script(*settled(), expects={4: {"actions": {"wait_ms": 5000}, "desired": USE}})
DIFFERENT = a_script(*settled(), expects={4: {"actions": {"wait_ms": 1}, "desired": USE}}, script_id="s2")


def replay(*arguments: str, stdin: bytes = b"") -> Result:
    return CliRunner().invoke(replay_command, arguments, input=stdin)


def lines_of(*scripts: Json) -> bytes:
    return b"".join(json.dumps(script).encode() + b"\n" for script in scripts)


@pytest.fixture
def script_file(tmp_path: Path) -> Path:
    path = tmp_path / "scripts.jsonl"
    path.write_bytes(lines_of(GOOD, DIFFERENT))
    return path


def test_the_recorded_scripts_are_replayed_without_a_difference() -> None:
    result = replay("--check", str(VECTORS))
    assert result.stdout == "160 scripts, 6225 steps, 0 differ\n"
    assert result.exit_code == 0


def test_a_script_is_answered_by_one_line_of_json(script_file: Path) -> None:
    result = replay(str(script_file))
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert [answer["id"] for answer in answers] == ["s1", "s2"]
    assert [len(answer["steps"]) for answer in answers] == [5, 5]
    assert answers[0]["steps"][4] == {
        "actions": {"wait_ms": 5000},
        "desired": USE,
        "error": None,
        "reasons": [],
    }
    assert result.exit_code == 0


def test_check_lists_the_differences_and_counts_them(script_file: Path) -> None:
    result = replay("--check", str(script_file))
    assert result.stdout.splitlines() == [
        f"{script_file}:2: s2 step 4 (plugin.success): actions.wait_ms: expected 1, got 5000",
        "2 scripts, 10 steps, 1 differ",
    ]
    assert result.exit_code == 1


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_standard_input_is_read_plain_or_packed(pack: type[bytes]) -> None:
    result = replay("--check", "-", stdin=pack(lines_of(GOOD)))
    assert (result.exit_code, result.stdout) == (0, "1 scripts, 5 steps, 0 differ\n")


def test_empty_lines_and_an_empty_file_hold_no_scripts() -> None:
    assert replay("--check", "-", stdin=b"").stdout == "0 scripts, 0 steps, 0 differ\n"
    spaced = b"\n" + lines_of(GOOD) + b"  \r\n"
    assert replay("--check", "-", stdin=spaced).stdout == "1 scripts, 5 steps, 0 differ\n"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"nonsense", "is not JSON"),
        (b'{"id": "a", "steps": [', "is not JSON"),
        (b"\xff\xfe{}", "is not JSON"),
        (b"[" * 200_000, "is nested too deeply"),
        (b'{"id": ' + b"9" * 5_000 + b"}", "is not JSON"),
        (b'{"id": "a", "steps": NaN}', "is not JSON: NaN is no JSON number"),
        (b"[]", "value: must be an object, not an array"),
        (b'{"id": "a"}', "steps: is missing"),
        (
            lines_of(a_script(a_new(), an_event("what"))).strip(),
            "steps[1].event.op: is not an event that is known",
        ),
        (lines_of(a_script(a_new(), an_event("next", 1))).strip(), "now_ms: goes back from 1000 to 1"),
    ],
    ids=["text", "cut", "bytes", "deep", "huge", "nan", "array", "steps", "op", "time"],
)
def test_a_bad_line_is_told_by_file_and_line_and_ends_with_2(
    tmp_path: Path, line: bytes, problem: str
) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(lines_of(GOOD) + line + b"\n" + lines_of(GOOD))
    result = replay(str(path))
    assert result.exit_code == 2
    assert f"{path}:2: " in result.stderr
    assert problem in result.stderr
    assert result.stderr.count("\n") == 1
    assert len(result.stdout.splitlines()) == 1


def test_a_line_beyond_the_bound_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl.gz"
    path.write_bytes(gzip.compress(b" " * (MAX_LINE_BYTES + 10)))
    result = replay(str(path))
    assert result.exit_code == 2
    assert f"{path}:1: is longer than {MAX_LINE_BYTES} bytes" in result.stderr


def test_a_packed_file_that_was_cut_or_damaged_is_told(tmp_path: Path) -> None:
    packed = VECTORS.read_bytes()
    for content in (packed[:9_000], packed[:5_000] + b"\0" * 500 + packed[5_500:], b"\x1f\x8bnothing"):
        path = tmp_path / "bad.gz"
        path.write_bytes(content)
        result = replay("--check", str(path))
        assert result.exit_code == 2
        assert f"{path}:" in result.stderr
        assert result.exception is None or isinstance(result.exception, SystemExit)


@pytest.mark.parametrize("name", ["missing.jsonl", "."])
def test_a_file_that_can_not_be_opened_is_told_and_the_others_are_read(
    tmp_path: Path, script_file: Path, name: str
) -> None:
    result = replay("--check", str(tmp_path / name), str(script_file))
    assert result.exit_code == 2
    assert "can't be read: " in result.stderr
    assert result.stdout.endswith("2 scripts, 10 steps, 1 differ\n")


def test_text_from_a_file_is_escaped_where_it_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "hostile.jsonl"
    path.write_bytes(lines_of({**DIFFERENT, "id": "\x1b[2J" + "x" * 500}))
    result = replay("--check", str(path))
    assert "\x1b" not in result.stdout
    assert "\\x1b[2J" in result.stdout
    assert len(result.stdout.splitlines()[0]) < 700


def test_without_a_file_the_usage_is_shown() -> None:
    result = replay()
    assert result.exit_code == 2
    assert "Usage:" in result.stderr
