"""A recording's file is whole after every write, and no one else's business."""

from __future__ import annotations

import json
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.adapters.recording_file import RecordingFile
from app.errors import PeerRefused


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Files may grow to `size` bytes, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


def scripts(path: Path) -> list[tuple[str, list[int]]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [(line["id"], [step["n"] for step in line["steps"]]) for line in lines]


def test_the_file_is_whole_after_every_write(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    file = RecordingFile(path)
    expected: list[tuple[str, list[int]]] = []
    assert path.read_bytes() == b""
    for script in ('a "quoted" id', "b"):
        expected.append((script, []))
        for number in range(5):
            file.append(script, b'{"n":%d},{"n":%d}' % (number, number))
            expected[-1][1].extend([number, number])
            assert scripts(path) == expected
    file.append("c", b"")
    assert scripts(path) == expected
    assert file.size == path.stat().st_size
    file.close()


def test_only_its_owner_may_read_it_whatever_was_there_before(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text("x" * 1_000)
    path.chmod(0o666)
    old = os.umask(0)
    try:
        RecordingFile(path).append("a", b'{"n":1}')
        RecordingFile(tmp_path / "new.jsonl")
    finally:
        os.umask(old)
    assert scripts(path) == [("a", [1])]
    assert [each.stat().st_mode & 0o777 for each in sorted(tmp_path.iterdir())] == [0o600, 0o600]


@pytest.mark.parametrize("script", ["a", "b"])
def test_a_write_that_finds_no_room_is_taken_back(tmp_path: Path, script: str) -> None:
    path = tmp_path / "r.jsonl"
    file = RecordingFile(path)
    file.append("a", b'{"n":1}')
    size = path.stat().st_size
    steps = b",".join(b'{"n":%d}' % number for number in range(1_000))
    with room_for(size + 500), pytest.raises(PeerRefused):
        file.append(script, steps)
    assert scripts(path) == [("a", [1])]
    file.append("a", b'{"n":2}')
    assert scripts(path) == [("a", [1, 2])]
    file.close()


def test_what_is_no_regular_file_or_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "none" / "r.jsonl", Path("/dev/null")):
        with pytest.raises(PeerRefused):
            RecordingFile(path)
