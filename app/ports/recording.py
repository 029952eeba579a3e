"""Where recordings go: a stream that the command line follows, files beside the worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from app.ports.store import BucketName
from app.ports.vm import VmKey


class RecordingEnd(StrEnum):
    """Why an owner ended its part of a recording."""

    OVER = "over"
    """Its time was over, or it was taken back."""
    OWNER = "owner"
    """The VM's runner ended here; the next one goes on with a script of its own."""
    FULL = "full"
    """It has reached its size."""
    LOST = "lost"
    """Steps could not be written in time; the recording is whole up to there."""


@dataclass(frozen=True, slots=True)
class RecordedPiece:
    """A part of a script as it travels.

    Attributes:
        script: the script's id.
        seq: counts the pieces of one owner from 1; one that is not newer was sent twice.
        steps: JSON objects with a comma between each two; may be empty at the end.
        end: None while the owner goes on.
    """

    script: str
    seq: int
    steps: bytes
    end: RecordingEnd | None = None


class RecordingSink(Protocol):
    """Takes one owner's part of one recording."""

    def append(self, script: str, steps: bytes) -> None:
        """Add steps to a script; another id than before begins another script.

        Raises:
            PeerError: not taken, or perhaps; the same call may be made again.
        """
        ...

    def end(self, script: str, reason: RecordingEnd) -> None:
        """Nothing more will come. Raises PeerError as `append`."""
        ...


class RecordingStreams(Protocol):
    """Streams in Redis, one per recording: owners write, the one who asked for it reads."""

    def sink(self, bucket: BucketName, key: VmKey, recording: str) -> RecordingSink:
        """Where an owner writes; refuses (`PeerRefused`) when nobody has read for long."""
        ...

    def take(self, bucket: BucketName, key: VmKey, recording: str) -> Sequence[RecordedPiece]:
        """The oldest pieces, which are gone from the stream then."""
        ...

    def drop(self, bucket: BucketName, key: VmKey, recording: str) -> None:
        """Delete the stream."""
        ...


class RecordingFiles(Protocol):
    """Files in a directory of the worker's host, bounded per VM."""

    def sink(self, key: VmKey) -> RecordingSink:
        """Where a VM's steps go: a file for each script."""
        ...
