"""Asking the owner of a VM to record it, and reading along until the recording is over.

Asked for by an intent, which the owner takes up at its tick; the pieces come through a stream. A change of
owner leads to a script of its own: the new owner finds the same intent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from app.errors import StoreUnavailable
from app.ports.recording import RecordedPiece, RecordingEnd, RecordingStreams
from app.ports.runtime import Clock
from app.ports.store import BucketName, Intent, IntentStore
from app.ports.vm import VmKey
from app.services.instructing import Author
from app.services.recording import INTENT_KIND

LOOK_EVERY_S = 0.25
"""Between two looks at the stream."""

LAST_WORD_S = 15.0
"""How long after its time a recording is waited for: a tick of the owner, and its writing."""

PATIENCE_S = 30.0
"""How long Redis may be away."""


@dataclass(frozen=True, slots=True)
class AskedRecording:
    """A recording that was asked for.

    Attributes:
        recording: its id.
        for_ms: how long it is to be, from its first step on.
        intent: as it stands in the store.
    """

    recording: str
    key: VmKey
    bucket: BucketName
    for_ms: int
    intent: Intent


class Following:
    """Begins, follows and ends recordings."""

    def __init__(
        self,
        intents: IntentStore,
        streams: RecordingStreams,
        clock: Clock,
        new_id: Callable[[], str],
        sleep: Callable[[float], None],
    ) -> None:
        self._intents = intents
        self._streams = streams
        self._clock = clock
        self._new_id = new_id
        self._sleep = sleep

    def ask(
        self, key: VmKey, bucket: BucketName, *, for_ms: int, max_bytes: int, author: Author
    ) -> AskedRecording:
        """Ask for a recording; raises StoreUnavailable."""
        recording, now = self._new_id(), self._clock.wall_ms()
        intent = Intent(
            target=str(key),
            kind=f"{INTENT_KIND}{recording}",
            value=str(max_bytes),
            until_ms=now + for_ms,
            reason=author.reason,
            author=author.name,
            at_ms=now,
            intent_id=recording,
        )
        self._intents.put(bucket, intent)
        return AskedRecording(recording, key, bucket, for_ms, intent)

    def follow(self, asked: AskedRecording) -> Iterator[RecordedPiece | None]:
        """The pieces as they come, each once, the last one of each owner with its `end`.

        None now and then, so that the caller can tell how long nothing has come. Ends when the owner says
        that the recording is over, or some seconds after its time.

        Raises:
            StoreUnavailable: Redis was away for long.
        """
        seen: dict[str, int] = {}
        until_ms = self._clock.wall_ms() + asked.for_ms
        answered = self._clock.monotonic()
        while self._clock.wall_ms() < until_ms + LAST_WORD_S * 1000:
            try:
                pieces = self._streams.take(asked.bucket, asked.key, asked.recording)
                answered = self._clock.monotonic()
                if pieces and not seen:
                    until_ms = self._begun(asked)
            except StoreUnavailable:
                if self._clock.monotonic() - answered > PATIENCE_S:
                    raise
                pieces = ()
            for piece in pieces:
                if piece.seq <= seen.get(piece.script, 0):
                    continue
                seen[piece.script] = piece.seq
                yield piece
                if piece.end is not None and piece.end is not RecordingEnd.OWNER:
                    return
            if not pieces:
                yield None
                self._sleep(LOOK_EVERY_S)

    def stop(self, asked: AskedRecording) -> None:
        """Take the wish back and remove what nobody will read; raises StoreUnavailable."""
        self._intents.remove(asked.bucket, asked.intent.target, asked.intent.kind)
        self._streams.drop(asked.bucket, asked.key, asked.recording)

    def _begun(self, asked: AskedRecording) -> int:
        """It has begun: its time counts from now on. When it ends, Unix ms."""
        until_ms = self._clock.wall_ms() + asked.for_ms
        self._intents.put(asked.bucket, replace(asked.intent, until_ms=until_ms))
        return until_ms
