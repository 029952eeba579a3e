"""Recordings as files beside the worker: a directory for each VM, a file for each script, bounded per VM.

Disks may be slow, so every call runs in a native thread; the greenlet that made it waits, nothing else does.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import gevent

from app.adapters.recording_file import RecordingFile
from app.errors import PeerRefused
from app.ports.recording import RecordingEnd
from app.ports.vm import VmKey

SUFFIX = ".jsonl"

_LONGEST_NAME = 200
"""Characters of a VM's directory; file systems take 255."""


class RecordingDirectory:
    """The `RecordingFiles` of one worker.

    Args:
        directory: made with mode 0700 at the first recording, if it isn't there; so are those in it.
        max_bytes: of all files of a VM; the oldest go first, the one being written never.
        max_s: files that were last written to longer ago go, too.
    """

    def __init__(self, directory: str, worker: str, *, max_bytes: int, max_s: float) -> None:
        self._directory = Path(directory)
        self._worker = quote(worker, safe="")
        self._max_bytes = max_bytes
        self._max_s = max_s
        self._last_ms = 0

    def sink(self, key: VmKey) -> RecordingFilesSink:
        """See `RecordingFiles.sink`; nothing is opened yet."""
        return RecordingFilesSink(self._open, self._directory / _directory_name(key))

    def _open(self, directory: Path) -> RecordingFile:
        """A new file, after room was made for it."""
        try:
            for each in (self._directory, directory):
                each.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._make_room(directory)
        except OSError as err:
            raise PeerRefused(str(directory), err.strerror or type(err).__name__) from err
        # No two files begin in the same millisecond.
        self._last_ms = max(time.time_ns() // 1_000_000, self._last_ms + 1)
        moment = time.strftime("%Y%m%dT%H%M%S", time.gmtime(self._last_ms // 1000))
        return RecordingFile(directory / f"{moment}.{self._last_ms % 1000:03}Z+{self._worker}{SUFFIX}")

    def _make_room(self, directory: Path) -> None:
        with os.scandir(directory) as entries:
            found = [
                (entry.stat().st_mtime, entry.stat().st_size, entry.path)
                for entry in entries
                if entry.name.endswith(SUFFIX)
            ]
        # The new file may become a quarter of the whole.
        room, oldest = self._max_bytes * 3 // 4, time.time() - self._max_s
        for written, size, path in sorted(found, reverse=True):
            room -= size
            if room < 0 or written < oldest:
                Path(path).unlink(missing_ok=True)


class RecordingFilesSink:
    """The `RecordingSink` of one VM."""

    def __init__(self, open_file: Callable[[Path], RecordingFile], directory: Path) -> None:
        self._open_file = open_file
        self._directory = directory
        self._script: str | None = None
        self._file: RecordingFile | None = None

    def append(self, script: str, steps: bytes) -> None:
        """See `RecordingSink.append`; PeerRefused when the disk takes no more."""
        _in_thread(self._append, script, steps)

    def end(self, script: str, reason: RecordingEnd) -> None:
        """See `RecordingSink.end`: the file is whole, so it is only closed."""
        _in_thread(self._close)

    def _append(self, script: str, steps: bytes) -> None:
        if self._file is None or script != self._script:
            self._close()
            self._file = self._open_file(self._directory)
            self._script = script
        try:
            self._file.append(script, steps)
        except PeerRefused:
            # Whoever is refused begins anew later, with another sink.
            self._close()
            raise

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()


def _directory_name(key: VmKey) -> str:
    """No two VMs have the same, and none leads out of where it is."""
    # The plus sign is no character that quoting leaves alone, and no name is only dots.
    name = "+".join(quote(part, safe="") for part in key.split("/", 1))
    if len(name) > _LONGEST_NAME or "+" not in name:
        name = name[: _LONGEST_NAME - 17] + "-" + hashlib.sha256(key.encode()).hexdigest()[:16]
    return name


def _in_thread(run: Callable[..., None], *arguments: Any) -> None:
    def guarded() -> PeerRefused | None:
        # An exception that leaves the thread would be printed by the hub.
        try:
            run(*arguments)
        except PeerRefused as err:
            return err
        return None

    refused = gevent.get_hub().threadpool.apply(guarded)
    if refused is not None:
        raise refused
