"""Recordings as files beside the worker: one for each script, the oldest of a VM deleted as new ones come.

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

_LONGEST_NAME = 180
"""Characters of a VM's part of a file name; file systems take 255 for all of it."""


class RecordingDirectory:
    """The `RecordingFiles` of one worker.

    Args:
        directory: made with mode 0700 at the first recording, if it isn't there.
        max_bytes: of all files of a VM; the oldest go first, the one being written never.
        max_s: files that were last written to longer ago go, too.
    """

    def __init__(self, directory: str, worker: str, *, max_bytes: int, max_s: float) -> None:
        self._directory = Path(directory)
        self._worker = quote(worker, safe="")
        self._max_bytes = max_bytes
        self._max_s = max_s

    def sink(self, key: VmKey) -> RecordingFilesSink:
        """See `RecordingFiles.sink`; nothing is opened yet."""
        return RecordingFilesSink(self._open, _file_prefix(key))

    def _open(self, prefix: str) -> RecordingFile:
        """A new file, after room was made for it."""
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._make_room(prefix)
        except OSError as err:
            raise PeerRefused(str(self._directory), err.strerror or type(err).__name__) from err
        moment = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        name = f"{prefix}{moment}.{time.time_ns() // 1_000_000 % 1000:03}Z+{self._worker}{SUFFIX}"
        return RecordingFile(self._directory / name)

    def _make_room(self, prefix: str) -> None:
        with os.scandir(self._directory) as entries:
            found = [
                (entry.stat().st_mtime, entry.stat().st_size, entry.path)
                for entry in entries
                if entry.name.startswith(prefix) and entry.name.endswith(SUFFIX)
            ]
        # The new file may become a quarter of the whole.
        room, oldest = self._max_bytes * 3 // 4, time.time() - self._max_s
        for written, size, path in sorted(found, reverse=True):
            room -= size
            if room < 0 or written < oldest:
                Path(path).unlink(missing_ok=True)


class RecordingFilesSink:
    """The `RecordingSink` of one VM."""

    def __init__(self, open_file: Callable[[str], RecordingFile], prefix: str) -> None:
        self._open_file = open_file
        self._prefix = prefix
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
            self._file = self._open_file(self._prefix)
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


def _file_prefix(key: VmKey) -> str:
    """A VM's part of its files' names; no two VMs have the same."""
    parts = [quote(part, safe="") for part in key.split("/", 1)]
    name = "+".join(parts)
    if len(name) > _LONGEST_NAME:
        name = name[: _LONGEST_NAME - 17] + "-" + hashlib.sha256(key.encode()).hexdigest()[:16]
    return name + "+"


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
