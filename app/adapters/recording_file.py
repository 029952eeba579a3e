"""A file of event scripts that is whole after every write, whatever happens to its writer then.

The last script's end stands in the file from the start; more steps are written over it together with it. A
write that fails (a full disk) is taken back.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from pathlib import Path

from app.errors import PeerRefused

_TAIL = b"]}\n"


class RecordingFile:
    """One script a line, mode 0600; an earlier file of that name is replaced.

    Raises:
        PeerRefused: it can't be opened or is no regular file; `problem` says why.
    """

    def __init__(self, path: Path) -> None:
        self._peer = str(path)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
        try:
            self._file = os.open(path, flags, 0o600)
        except OSError as err:
            raise self._refused(err) from err
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            os.close(self._file)
            raise PeerRefused(self._peer, "is no regular file")
        os.fchmod(self._file, 0o600)
        os.ftruncate(self._file, 0)
        self._end = 0
        self._script: str | None = None
        self._has_steps = False

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return self._end

    def append(self, script: str, steps: bytes) -> None:
        """Add steps (JSON objects with commas between) to the last script, or begin a new one.

        Raises:
            PeerRefused: not written; the file is as it was.
        """
        if not steps:
            return
        if script == self._script:
            at = self._end - len(_TAIL)
            head = b"," if self._has_steps else b""
        else:
            at = self._end
            head = b'{"id":' + json.dumps(script).encode() + b',"steps":['
        self._write(at, head + steps + _TAIL)
        self._script, self._has_steps = script, True

    def close(self) -> None:
        """Close it; nothing is pending."""
        os.close(self._file)

    def _write(self, at: int, data: bytes) -> None:
        view, done = memoryview(data), 0
        try:
            while done < len(data):
                done += os.pwrite(self._file, view[done:], at + done)
        except OSError as err:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._end)
                if at < self._end:
                    os.pwrite(self._file, _TAIL, at)
            raise self._refused(err) from err
        self._end = at + len(data)

    def _refused(self, err: OSError) -> PeerRefused:
        return PeerRefused(self._peer, err.strerror or type(err).__name__)
