"""A part of a worker that follows its buckets and has jobs of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from app.ports.runtime import Signal
from app.ports.store import BucketName, FencingToken


class AgentPart(Protocol):
    """What the agent does with such a part."""

    def jobs(self) -> Mapping[str, Callable[[Signal], None]]:
        """What runs until stopped, by name; asked once, at the start."""
        ...

    def acquired(self, bucket: BucketName, token: FencingToken) -> None:
        """Our bucket from now on; its fence has been raised and its runners have begun. Must not wait."""
        ...

    def lost(self, bucket: BucketName) -> None:
        """No longer ours, or about to be handed over. Must not wait; may come for one that is not ours."""
        ...

    def counters(self) -> Mapping[str, int]:
        """For the registry."""
        ...

    def problems(self) -> list[str]:
        """What an operator should know, a sentence each."""
        ...
