"""A file with one JSON line per effect, to prove afterwards what was done by whom, and in what order.

Each line has `n`, consecutive in one run of the process (a gap is a lost line), and `mono`, seconds of the
machine's monotonic clock, so that lines of several processes can be put in order. Bounded: see `MAX_BYTES`.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import IO

MAX_BYTES = 256 * 1024 * 1024
"""At this size the file becomes `NAME.1`, replacing an older one, and a new one begins."""


class JournalFile:
    """Appends lines; each is written out at once, so that a killed process loses none."""

    def __init__(self, path: Path | None) -> None:
        """Open the file for appending, mode 0600; with None nothing is kept.

        Raises:
            OSError: it can't be opened.
        """
        self._path = path
        self._number = 0
        self._file: IO[bytes] | None = None if path is None else _open(path)

    @property
    def is_kept(self) -> bool:
        """Whether lines go anywhere; what is written for a journal alone need not be made otherwise."""
        return self._file is not None

    def write(self, **facts: object) -> None:
        """Add a line. A full disk costs the line, not the process; its number is missing then."""
        if self._file is None or self._path is None:
            return
        self._number += 1
        line = {"n": self._number, "mono": round(time.monotonic(), 6), **facts}
        try:
            self._file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
            if self._file.tell() >= MAX_BYTES:
                self._file.close()
                os.replace(self._path, f"{self._path}.1")
                self._file = _open(self._path)
        except OSError:
            return

    def close(self) -> None:
        """Close the file; later lines are dropped."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _open(path: Path) -> IO[bytes]:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    return os.fdopen(descriptor, "ab", buffering=0)
