"""What the harness itself saw and did, in memory and in its own journal; safe for several threads."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import asdict
from pathlib import Path

from tests.chaos.evidence import Counters, FaultDone, Gauge, LeaseChange, Life, Pushed
from tests.chaos.spans import Span

Note = FaultDone | LeaseChange | Life | Gauge | Pushed | Span | Counters

WALL_BEHIND_S = time.time() - time.monotonic()
"""Taken from a wall time it gives the monotonic one; a clock that is set during a run spoils it."""


class Notebook:
    """Collects notes; each is written out at once as a JSON line with the kind of note in `note`."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)
        # Guards the list and the file.
        self._lock = threading.Lock()
        self._notes: list[Note] = []

    def add(self, note: Note) -> None:
        with self._lock:
            self._notes.append(note)
            line = {"note": type(note).__name__, **asdict(note)}
            self._file.write(json.dumps(line, default=str).encode() + b"\n")

    def all(self) -> list[Note]:
        with self._lock:
            return list(self._notes)

    def close(self) -> None:
        self._file.close()
