"""Recordings in a directory beside the worker: names, modes, room, and a disk that can't be written to."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from app.adapters.recording_files import RecordingDirectory
from app.errors import PeerRefused
from app.ports.recording import RecordingEnd
from app.ports.vm import VmKey

STEP = b'{"event":{"op":"next"}}'


def files_of(directory: Path, vm: str = "*") -> list[Path]:
    return sorted(directory.glob(f"{vm}/*"))


def a_directory(path: Path, *, max_bytes: int = 2**20, max_s: float = 3_600.0) -> RecordingDirectory:
    return RecordingDirectory(str(path), "worker1", max_bytes=max_bytes, max_s=max_s)


def test_each_script_is_a_file_that_only_its_owner_may_read(tmp_path: Path) -> None:
    place = tmp_path / "deep" / "recordings"
    sink = a_directory(place).sink(VmKey("prod/db"))
    for script in ("one", "two"):
        sink.append(script, STEP)
        sink.append(script, STEP)
    sink.end("two", RecordingEnd.OWNER)
    assert [path.stat().st_mode & 0o777 for path in (place, place / "prod+db")] == [0o700, 0o700]
    found = files_of(place)
    assert [path.stat().st_mode & 0o777 for path in found] == [0o600, 0o600]
    assert [json.loads(path.read_text())["id"] for path in found] == ["one", "two"]
    assert [len(json.loads(path.read_text())["steps"]) for path in found] == [2, 2]


def test_names_tell_vm_and_worker_and_can_be_of_any_length_or_kind(tmp_path: Path) -> None:
    keys = ("prod/db", "prod/../../etc", "..", "prod+db/x", "n/" + "x" * 300, "n/" + "x" * 301, "ü/\n")
    place = tmp_path / "recordings"
    for key in keys:
        a_directory(place).sink(VmKey(key)).append("s", STEP)
    found = files_of(place)
    assert len({path.parent for path in found}) == len(found) == len(keys)
    assert (place / "prod+db").is_dir()
    assert all(path.name.endswith("Z+worker1.jsonl") and str(path).isascii() for path in found)
    assert list(tmp_path.iterdir()) == [place]


def test_the_oldest_files_of_a_vm_make_room_and_those_of_others_stay(tmp_path: Path) -> None:
    recordings = a_directory(tmp_path, max_bytes=100_000)
    recordings.sink(VmKey("prod/other")).append("s", STEP * 2_000)
    for number in range(12):
        sink = recordings.sink(VmKey("prod/db"))
        sink.append(f"script {number}", b",".join([STEP] * 1_000))
        sink.end("", RecordingEnd.OVER)
        os.utime(files_of(tmp_path, "prod+db")[-1], (time.time() - 100 + number,) * 2)
    kept = files_of(tmp_path, "prod+db")
    assert sum(path.stat().st_size for path in kept) <= 100_000
    assert [json.loads(path.read_text())["id"] for path in kept][-1] == "script 11"
    assert len(kept) >= 3
    assert len(files_of(tmp_path, "prod+other")) == 1


def test_files_that_are_too_old_go_when_a_new_one_is_begun(tmp_path: Path) -> None:
    recordings = a_directory(tmp_path, max_s=60.0)
    recordings.sink(VmKey("prod/db")).append("old", STEP)
    os.utime(files_of(tmp_path)[0], (time.time() - 61,) * 2)
    recordings.sink(VmKey("prod/db")).append("new", STEP)
    assert [json.loads(path.read_text())["id"] for path in files_of(tmp_path)] == ["new"]


def test_a_directory_that_cannot_be_is_refused_quietly(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    sink = a_directory(tmp_path / "file" / "below").sink(VmKey("prod/db"))
    with pytest.raises(PeerRefused, match="Not a directory"):
        sink.append("s", STEP)
    assert capfd.readouterr().err == ""


def test_a_disk_that_is_full_is_refused_and_leaves_no_open_file(tmp_path: Path) -> None:
    sink = a_directory(tmp_path).sink(VmKey("prod/db"))
    sink.append("s", STEP)
    before = len(os.listdir("/proc/self/fd"))
    file = sink._file
    assert file is not None
    os.close(file._file)
    file._file = os.open("/dev/full", os.O_RDWR)
    with pytest.raises(PeerRefused, match="No space left on device"):
        sink.append("s", STEP)
    assert len(os.listdir("/proc/self/fd")) == before - 1
