"""Appends batches of events to files: JSON lines, gzip, a new file at a certain size, the oldest deleted.

A batch is one gzip member, written out and synced before it counts as delivered; what a crash leaves of one
ends its file, since each process begins a file of its own.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import gevent

from app.errors import PeerRefused

SUFFIX = ".jsonl.gz"


class FileSink:
    """The `EventSink` port. Disks may be slow: each call runs in a native thread.

    Args:
        stem: what the files' names begin with.
        worker: our name; no two processes have the same at a time.
        max_bytes: a file that has as much is ended.
        max_files: of this worker; the oldest are deleted as new ones are begun.
    """

    name = "file"

    def __init__(self, directory: str, stem: str, worker: str, *, max_bytes: int, max_files: int) -> None:
        self._directory = Path(directory)
        self._stem = stem
        self._end = f"+{quote(worker, safe='')}{SUFFIX}"
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._file: int | None = None
        self._last_ms = 0

    def send(self, events: Sequence[bytes], *, label: str, timeout_s: float) -> None:
        """See `EventSink.send`; a disk is waited for as long as it takes."""
        member = gzip.compress(b"".join(event + b"\n" for event in events), mtime=0)

        def write() -> OSError | None:
            # An exception that leaves the thread would be printed by the hub.
            try:
                self._append(member)
            except OSError as err:
                return err
            return None

        err = gevent.get_hub().threadpool.apply(write)
        if err is not None:
            raise PeerRefused(f"files in {self._directory}", err.strerror or type(err).__name__) from err

    def close(self) -> None:
        """See `EventSink.close`."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _append(self, member: bytes) -> None:
        if self._file is None:
            self._file = self._open()
        size = os.lseek(self._file, 0, os.SEEK_END)
        try:
            rest = memoryview(member)
            while rest:
                rest = rest[os.write(self._file, rest) :]
            os.fdatasync(self._file)
        except OSError:
            # Half a member would make all that follows it unreadable.
            os.ftruncate(self._file, size)
            self.close()
            raise
        if size + len(member) >= self._max_bytes:
            self.close()

    def _open(self) -> int:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        ours = sorted(
            path
            for path in self._directory.iterdir()
            if path.name.startswith(f"{self._stem}-") and path.name.endswith(self._end)
        )
        for path in ours[: max(len(ours) - self._max_files + 1, 0)]:
            path.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        while True:
            # No two files begin in the same millisecond; an earlier run may have begun one in this.
            self._last_ms = max(time.time_ns() // 1_000_000, self._last_ms + 1)
            moment = time.strftime("%Y%m%dT%H%M%S", time.gmtime(self._last_ms // 1000))
            name = f"{self._stem}-{moment}.{self._last_ms % 1000:03}Z{self._end}"
            with contextlib.suppress(FileExistsError):
                return os.open(self._directory / name, flags, 0o600)
