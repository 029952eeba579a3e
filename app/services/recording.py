"""What is being recorded at a worker: begun and ended at ticks, written by a job of its own.

Nothing here is on a runner's way: steps are put in a list, and the job makes text of them and writes it. A
sink that is slow or full costs the recording, never the runner.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from app.errors import PeerError, PeerRefused
from app.ports.recording import RecordingEnd, RecordingFiles, RecordingSink, RecordingStreams
from app.ports.runtime import Clock, Concurrency, Signal
from app.ports.store import BucketName, Intent
from app.ports.vm import VmKey
from app.services.recorder import LiveStep, Recorder, first_step
from app.services.runner import Runner
from app.services.script_writing import MAX_SCRIPT_BYTES, Piece, ScriptWriter

logger = logging.getLogger(__name__)

INTENT_KIND = "record:"
"""Beginning of the kind of an intent that asks for a recording; the recording's id follows."""

FLUSH_EVERY_S = 1.0
"""How often steps are written."""

STEPS_A_PIECE = 100
"""Steps that are made into text at once (about 5 ms)."""

MAX_PENDING = 5_000
"""Steps that wait for their sink, a recording; beyond that it is lost."""

MAX_FAILURES = 60
"""Failed attempts to write a recording, before it is given up without its end mark."""

MAX_PER_VM = 4
"""Recordings of one VM that are asked for at the same time."""

BEGIN_AGAIN_S = 60.0
"""After a failure of the files, a VM's next one is begun so much later."""

FILES = "files"
"""Name of the recording that the configuration asks for."""


@dataclass(frozen=True, slots=True)
class FileRules:
    """Which VMs are recorded to files.

    Attributes:
        patterns: of VM keys, as in a shell (`prod/*`).
        max_bytes: a quarter of it ends a script, and so its file.
        max_s: likewise.
    """

    patterns: tuple[str, ...]
    files: RecordingFiles
    max_bytes: int
    max_s: float

    def wants(self, key: VmKey) -> bool:
        """Whether the VM is to be recorded."""
        return any(fnmatchcase(key, pattern) for pattern in self.patterns)


@dataclass(frozen=True, slots=True)
class Asked:
    """A recording as it is wanted: its end (Unix ms) and size, None for any."""

    until_ms: int | None
    max_bytes: int | None


class Tape:
    """One recording of one runner.

    Attributes:
        asked: what is wanted of it; its end may be moved while it runs.
        end: why it takes nothing more; None while it does.
        is_done: everything is written that will be.
        failures: attempts to write that failed.
    """

    def __init__(self, runner: Runner, sink: RecordingSink, writer: ScriptWriter, asked: Asked) -> None:
        self.runner = runner
        self.asked = asked
        self.end: RecordingEnd | None = None
        self.is_done = False
        self.failures = 0
        self._sink = sink
        self._writer = writer
        self._pending: list[LiveStep] = [first_step(runner.state, runner.now())]
        self._unsent: list[Piece] = []
        self._script = ""
        self._size = 0

    def put(self, step: LiveStep) -> None:
        """See `Listener.put`."""
        if self.end is None:
            self._pending.append(step)
            if len(self._pending) > MAX_PENDING:
                self.stop(RecordingEnd.LOST)

    def stop(self, reason: RecordingEnd) -> None:
        """Take no more steps; what is pending is still written, unless the recording is lost."""
        if self.end is None:
            self.end = reason
        if reason is RecordingEnd.LOST:
            self._pending.clear()
            self._unsent.clear()

    def write(self, pause: Callable[[], None]) -> None:
        """Write what there is; `pause` lets others run between two pieces.

        Raises:
            PeerError: the sink did not take it; call again.
        """
        while self._unsent or self._pending:
            if not self._unsent:
                part, self._pending = self._pending[:STEPS_A_PIECE], self._pending[STEPS_A_PIECE:]
                self._unsent = self._writer.write(part)
            while self._unsent:
                self._send(self._unsent[0])
            pause()
        if self.end is not None and not self.is_done:
            self._sink.end(self._script, self.end)
            self.is_done = True

    def _send(self, piece: Piece) -> None:
        limit = self.asked.max_bytes
        if limit is not None and self._size + len(piece.steps) > limit:
            self.stop(RecordingEnd.FULL)
            self._pending.clear()
            self._unsent.clear()
            return
        self._sink.append(piece.script, piece.steps)
        self._script = piece.script
        self._size += len(piece.steps)
        # A failure elsewhere may have emptied the list meanwhile.
        if self._unsent and self._unsent[0] is piece:
            del self._unsent[0]


class Recordings:
    """All recordings at one worker.

    Args:
        rules: what the configuration asks for; None: nothing.
    """

    def __init__(
        self,
        worker: str,
        clock: Clock,
        concurrency: Concurrency,
        streams: RecordingStreams,
        rules: FileRules | None = None,
    ) -> None:
        self._worker = worker
        self._clock = clock
        self._concurrency = concurrency
        self._streams = streams
        self._rules = rules
        self._tapes: dict[VmKey, dict[str, Tape]] = {}
        self._failing: dict[tuple[VmKey, str], float] = {}
        self._said: set[str] = set()

    def take_up(self, bucket: BucketName, runners: Iterable[Runner], intents: Sequence[Intent]) -> None:
        """Begin and end recordings as the bucket's standing intents and the configuration say now."""
        by_vm: dict[str, dict[str, Asked]] = {}
        for intent in intents:
            if is_recording(intent):
                asked = Asked(intent.until_ms, int(intent.value) if intent.value.isdecimal() else None)
                by_vm.setdefault(intent.target, {})[intent.kind] = asked
        if not by_vm and not self._tapes and self._rules is None:
            return
        for runner in runners:
            wanted = dict(list(by_vm.get(runner.key, {}).items())[:MAX_PER_VM])
            if self._rules is not None and self._rules.wants(runner.key):
                wanted[FILES] = Asked(None, None)
            self._follow(bucket, runner, wanted)

    def _follow(self, bucket: BucketName, runner: Runner, wanted: dict[str, Asked]) -> None:
        tapes = self._tapes.get(runner.key, {})
        for name, tape in list(tapes.items()):
            if tape.runner is not runner:
                tape.stop(RecordingEnd.OWNER)
            elif name not in wanted:
                tape.stop(RecordingEnd.OVER)
                if tape.is_done:
                    del tapes[name]
        for name, asked in wanted.items():
            held = tapes.get(name)
            if held is not None and (held.end is None or not self._may_begin_again(name, held)):
                held.asked = asked
            elif not runner.is_closed and self._clock.monotonic() >= self._failing.get((runner.key, name), 0):
                self._begin(bucket, runner, name, asked)

    def _may_begin_again(self, name: str, tape: Tape) -> bool:
        """Whether a recording that has ended here is to go on: with a new runner, or a new file."""
        return tape.is_done and (name == FILES or tape.end is RecordingEnd.OWNER)

    def _begin(self, bucket: BucketName, runner: Runner, name: str, asked: Asked) -> None:
        title = f"{runner.key} {self._worker}"
        if name == FILES and self._rules is not None:
            sink = self._rules.files.sink(runner.key)
            size, ms = self._rules.max_bytes // 4, int(self._rules.max_s * 250)
            writer = ScriptWriter(title, max_bytes=min(size, MAX_SCRIPT_BYTES), max_ms=ms)
        else:
            sink = self._streams.sink(bucket, runner.key, name.removeprefix(INTENT_KIND))
            writer = ScriptWriter(title)
        tape = Tape(runner, sink, writer, asked)
        self._tapes.setdefault(runner.key, {})[name] = tape
        if runner.recorder is None:
            runner.recorder = Recorder()
        runner.recorder.listeners.append(tape)
        logger.info("recording begun", extra={"vm": runner.key, "recording": name})

    # --- writing ------------------------------------------------------------------------------------------

    def run(self, stop: Signal) -> None:
        """Write every second until `stop` is set; then `close` writes the rest."""
        while not stop.wait(FLUSH_EVERY_S):
            self.flush()

    def flush(self) -> None:
        """Write what all recordings have; end those whose time or runner is over."""
        for key, tapes in list(self._tapes.items()):
            for name, tape in list(tapes.items()):
                if tape.is_done:
                    continue
                self._end_if_over(tape)
                self._write(key, name, tape)
                if tape.end is not None:
                    _detach(tape)
            if all(tape.is_done and tape.runner.is_closed for tape in tapes.values()):
                self._tapes.pop(key, None)

    def close(self) -> None:
        """The worker stops: write what there is, once."""
        for tapes in self._tapes.values():
            for tape in tapes.values():
                tape.stop(RecordingEnd.OWNER)
        self.flush()

    def _end_if_over(self, tape: Tape) -> None:
        until_ms = tape.asked.until_ms
        if tape.runner.is_closed:
            tape.stop(RecordingEnd.OWNER)
        elif until_ms is not None and self._clock.wall_ms() >= until_ms:
            tape.stop(RecordingEnd.OVER)

    def _write(self, key: VmKey, name: str, tape: Tape) -> None:
        try:
            tape.write(lambda: self._concurrency.sleep(0))
        except PeerRefused as err:
            self._say_once(key, err)
            tape.stop(RecordingEnd.LOST)
        except PeerError as err:
            self._say_once(key, err)
        else:
            return
        tape.failures += 1
        if name == FILES or tape.failures >= MAX_FAILURES:
            tape.stop(RecordingEnd.LOST)
            tape.is_done = True
            self._failing[key, name] = self._clock.monotonic() + BEGIN_AGAIN_S

    def _say_once(self, key: VmKey, err: PeerError) -> None:
        if err.problem not in self._said and len(self._said) < 100:
            self._said.add(err.problem)
            extra = {"vm": key, "reason": str(err)}
            logger.warning("recording not written; scaling is not affected", extra=extra)


def is_recording(intent: Intent) -> bool:
    """Whether the intent asks for a recording."""
    return intent.kind.startswith(INTENT_KIND)


def _detach(tape: Tape) -> None:
    recorder = tape.runner.recorder
    if recorder is not None and tape in recorder.listeners:
        recorder.listeners.remove(tape)
        if not recorder.listeners:
            tape.runner.recorder = None
