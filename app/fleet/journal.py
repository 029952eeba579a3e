"""A file with one JSON line per effect on a VM, for whoever checks afterwards what was done by whom."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import IO

MAX_BYTES = 64 * 1024 * 1024
"""At this size the file becomes `NAME.1`, replacing an older one, and a new one begins."""


class Journal:
    """Appends lines; each is written out at once, so that a killed fleet loses none."""

    def __init__(self, path: Path | None) -> None:
        """Open the file for appending, mode 0600; with None nothing is kept.

        Raises:
            OSError: it can't be opened.
        """
        self._path = path
        self._file: IO[bytes] | None = None if path is None else _open(path)

    def write(self, **facts: object) -> None:
        """Add a line. A full disk costs the line, not the fleet."""
        if self._file is None or self._path is None:
            return
        try:
            self._file.write(json.dumps(facts, separators=(",", ":")).encode() + b"\n")
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
