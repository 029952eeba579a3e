"""`vmscaler record NAME`: a VM's events and decisions, as they happen, into a file that `replay` reads.

The owner of the VM writes; this command asks it to, and reads along.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import click

from app.adapters.recording_file import RecordingFile
from app.cli.durations import parse_duration_ms
from app.cli.fleet_access import fleet_access, this_author
from app.errors import PeerRefused, StoreUnavailable, UsageError
from app.ports.recording import RecordingEnd
from app.protocols.printable import printable
from app.services.following import AskedRecording, Following
from app.services.wording import bytes_text, count_text

STATUS_INCOMPLETE = 1
"""Exit status when nothing was recorded, or not to the end."""

HINT_AFTER_S = 6.0
"""An owner that has not begun by then is worth a line; a live one looks at every tick."""

_STEP = b'{"event":{'


class _Output(Protocol):
    def append(self, script: str, steps: bytes) -> None:
        """Add steps to a script; another id than before begins another script."""
        ...

    def close(self) -> None:
        """Nothing more will come."""
        ...


class _StandardOutput:
    """Whole scripts on standard output: each is written when the next one begins, or at the end."""

    def __init__(self) -> None:
        self._script = ""
        self._parts: list[bytes] = []

    def append(self, script: str, steps: bytes) -> None:
        if script != self._script:
            self.close()
            self._script = script
        if steps:
            self._parts.append(steps)

    def close(self) -> None:
        if self._parts:
            stream = sys.stdout.buffer
            head = b'{"id":' + json.dumps(self._script).encode() + b',"steps":['
            stream.write(head + b",".join(self._parts) + b"]}\n")
            stream.flush()
        self._parts = []


@click.command("record")
@click.argument("name")
@click.option(
    "--for", "duration", default="10m", show_default=True, metavar="TIME", help="How long: 90s, 10m, 1h30m …"
)
@click.option(
    "-o", "--output", metavar="FILE", help="Where to; - is standard output; default: named after VM and time."
)
@click.option(
    "--max-mib", default=64, show_default=True, type=click.IntRange(1, 1024), help="Most that is kept."
)
@click.option("--reason", default="", metavar="TEXT", help="Why; kept with the request.")
@click.pass_context
def record_command(
    context: click.Context, name: str, duration: str, output: str | None, max_mib: int, reason: str
) -> int:
    """Record VM NAME: its events and what was decided at each, one script a line.

    `vmscaler replay --check FILE` runs it again. A change of owner begins a new line. Ctrl-C ends the
    recording early; the file is whole at any time, and only you may read it.

    Exit status: 0 recorded, 1 nothing recorded or not to the end.
    """
    # Imported here: `--help` needs neither Redis' client nor the configuration.
    from app.bootstrap.reading import build_following
    from app.cli.config import settings_in_force

    for_ms = parse_duration_ms(duration)
    inspection = fleet_access(context).inspection
    key = inspection.resolve(name)
    following = build_following(settings_in_force(context))
    path = output or _default_name(key)
    target: _Output = _StandardOutput() if path == "-" else _open(path)
    asked = following.ask(
        key, inspection.bucket_of(key), for_ms=for_ms, max_bytes=max_mib * 2**20, author=this_author(reason)
    )
    session = _Session(following, asked, target, max_mib * 2**20, _note)
    _note(f"recording {printable(key)} for {duration} to {printable(path)}; Ctrl-C ends it")
    try:
        session.run()
    except KeyboardInterrupt:
        session.end = RecordingEnd.OVER
    finally:
        target.close()
        with contextlib.suppress(StoreUnavailable):
            following.stop(asked)
    return session.finish()


class _Session:
    """One recording as it is read; `end` is the owner's last word, or ours."""

    def __init__(
        self,
        following: Following,
        asked: AskedRecording,
        target: _Output,
        max_bytes: int,
        note: Callable[[str], None],
    ) -> None:
        self.end: RecordingEnd | None = None
        self._following, self._asked, self._target = following, asked, target
        self._max_bytes = max_bytes
        self._note = note
        self._scripts: list[str] = []
        self._steps = 0
        self._size = 0

    def run(self) -> None:
        """Read to the end."""
        began, has_hinted = time.monotonic(), False
        for piece in self._following.follow(self._asked):
            if piece is None:
                if not self._steps and not has_hinted and time.monotonic() - began > HINT_AFTER_S:
                    has_hinted = True
                    self._note("no owner has taken it up yet")
                continue
            self.end = piece.end
            if piece.steps and not self._put(piece.script, piece.steps):
                return

    def _put(self, script: str, steps: bytes) -> bool:
        """Keep a piece; whether there is room for more."""
        if self._size + len(steps) > self._max_bytes:
            self.end = RecordingEnd.FULL
            return False
        if script not in self._scripts:
            self._scripts.append(script)
        elif script != self._scripts[-1]:
            self._note("steps of an earlier owner came too late and were left out")
            return True
        self._target.append(script, steps)
        self._steps += steps.count(_STEP)
        self._size += len(steps)
        return True

    def finish(self) -> int:
        """Say what there is; the exit status."""
        if not self._steps:
            self._note("nothing recorded: no owner has taken it up")
            return STATUS_INCOMPLETE
        counts = f"{count_text(len(self._scripts), 'script')}, {count_text(self._steps, 'step')}"
        self._note(f"recorded {counts}, {bytes_text(self._size)}")
        if self.end is RecordingEnd.FULL:
            self._note("ended at its size; --max-mib sets it")
        if self.end is RecordingEnd.LOST:
            self._note("the owner could not go on: the recording is whole up to there")
            return STATUS_INCOMPLETE
        return 0


def _open(path: str) -> RecordingFile:
    try:
        return RecordingFile(Path(path))
    except PeerRefused as err:
        raise UsageError(f"{printable(path)}: {err.problem}") from err


def _default_name(key: str) -> str:
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    return f"{re.sub(r'[^A-Za-z0-9._-]', '-', key)}-{moment}.jsonl"


def _note(text: str) -> None:
    """Standard error: standard output may be the recording."""
    click.echo(text, err=True)
