"""Recordings on their way through Redis: a short stream each, which its reader empties as it reads."""

from __future__ import annotations

from collections.abc import Sequence

from app.adapters.redis_connection import RedisConnection, pairs
from app.adapters.redis_keys import RedisKeys
from app.errors import PeerRefused
from app.ports.recording import RecordedPiece, RecordingEnd
from app.ports.store import BucketName
from app.ports.vm import VmKey

MAX_BACKLOG = 64
"""Pieces that nobody has read; about 100 KB each at most, and one a second in general."""

KEPT_MS = 600_000
"""A stream goes by itself so long after the last piece."""

TAKEN_AT_ONCE = 16


class RedisRecordings:
    """The `RecordingStreams` of one fleet."""

    def __init__(self, connection: RedisConnection, keys: RedisKeys) -> None:
        self._connection = connection
        self._keys = keys

    def sink(self, bucket: BucketName, key: VmKey, recording: str) -> RedisRecordingSink:
        """See `RecordingStreams.sink`; connects at the first piece."""
        return RedisRecordingSink(self._connection, self._keys.recording(bucket, key, recording))

    def take(self, bucket: BucketName, key: VmKey, recording: str) -> Sequence[RecordedPiece]:
        """See `RecordingStreams.take`."""
        stream = self._keys.recording(bucket, key, recording)
        entries = self._connection.execute("XRANGE", stream, "-", "+", "COUNT", TAKEN_AT_ONCE)
        if not entries:
            return []
        self._connection.execute("XDEL", stream, *[entry_id for entry_id, _ in entries])
        return [_read(dict(pairs(fields))) for _, fields in entries]

    def drop(self, bucket: BucketName, key: VmKey, recording: str) -> None:
        """See `RecordingStreams.drop`."""
        self._connection.execute("DEL", self._keys.recording(bucket, key, recording))


class RedisRecordingSink:
    """The `RecordingSink` of one owner: numbers its pieces, so that one sent twice is told."""

    def __init__(self, connection: RedisConnection, stream: str) -> None:
        self._connection = connection
        self._stream = stream
        self._seq = 0

    def append(self, script: str, steps: bytes) -> None:
        """See `RecordingSink.append`; PeerRefused when nobody reads."""
        if self._put(script, steps, "") > MAX_BACKLOG:
            raise PeerRefused(self._connection.peer, "nobody reads the recording")

    def end(self, script: str, reason: RecordingEnd) -> None:
        """See `RecordingSink.end`."""
        self._put(script, b"", reason.value)

    def _put(self, script: str, steps: bytes, end: str) -> int:
        """Add a piece; how many there are now."""
        seq = self._seq + 1
        fields = ("script", script, "seq", seq, "steps", steps, "end", end)
        _, _, length = self._connection.execute_all(
            [
                ("XADD", self._stream, "MAXLEN", "~", 2 * MAX_BACKLOG, "*", *fields),
                ("PEXPIRE", self._stream, KEPT_MS),
                ("XLEN", self._stream),
            ]
        )
        self._seq = seq
        return int(length)


def _read(fields: dict[bytes, bytes]) -> RecordedPiece:
    end = fields[b"end"].decode()
    return RecordedPiece(
        script=fields[b"script"].decode(errors="backslashreplace"),
        seq=int(fields[b"seq"]),
        steps=fields[b"steps"],
        end=RecordingEnd(end) if end else None,
    )
