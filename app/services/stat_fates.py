"""What may become of a stat, and who has a say in it."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Protocol


class Fate(enum.Enum):
    """What became of a stat."""

    ACCEPTED = "accepted"
    FORWARDED = "forwarded"
    """The owner's queue has it."""
    LATE = "late"
    """Not newer than the last one accepted for its VM."""
    DROPPED = "dropped"
    """Retried in vain."""
    RETURNED = "returned"
    """It stays in its bucket's queue, from which it came: the bucket is no longer ours."""


class StatMessage(Protocol):
    """What the forwarder must know of a stat."""

    @property
    def key(self) -> str:
        """The VM's `namespace/name`."""
        ...

    @property
    def timestamp(self) -> int:
        """Unix milliseconds, the VM's clock."""
        ...


class Processor(Protocol):
    """What is done with the stats of one bucket."""

    is_local: bool

    def process(self, stat: Any) -> Fate:
        """Handle one; any error: it is tried again."""
        ...

    def shut_down(self) -> None:
        """Begin nothing more."""
        ...


class Origin(Protocol):
    """A bucket's queue that a stat was read from, in which it stays until it has its fate."""

    def is_current(self) -> bool:
        """Whether it is still read under the lease that this stat was read under."""
        ...

    def finish(self, fate: Fate) -> None:
        """The stat's fate; called once, from any job."""
        ...


@dataclass(slots=True)
class Counts:
    """Stats by what became of them; taken by `process`, received from queues, refused: not even taken."""

    taken: int = 0
    received: int = 0
    accepted: int = 0
    forwarded: int = 0
    late: int = 0
    dropped: int = 0
    returned: int = 0
    refused: int = 0
