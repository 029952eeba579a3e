"""What `vmscaler doctor` asks of the things around us, each once and within a time limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from app.protocols.kubernetes_rights import Right


@dataclass(frozen=True, slots=True)
class RedisFacts:
    """What a Redis says about itself; None: it does not say, or this user may not ask.

    Attributes:
        role: `master` or `slave`.
        policy: what it does when it is full, such as `noeviction`.
        max_bytes: 0: no limit.
        appends: whether it writes an append-only file.
        saves: its snapshot rule, "" for none.
        lets_anyone_in: whether a connection without user and password may do something.
        trips_ms: times of some round trips.
        clock_ms: its Unix time, less ours at that moment.
    """

    version: str | None
    role: str | None
    policy: str | None
    max_bytes: int | None
    appends: bool | None
    saves: str | None
    lets_anyone_in: bool
    trips_ms: Sequence[float]
    clock_ms: int


class RedisProbe(Protocol):
    """One Redis."""

    @property
    def is_local(self) -> bool:
        """Whether it is reached on this machine only: by a socket, or a loopback address."""
        ...

    def look(self) -> RedisFacts:
        """Ask it.

        Raises:
            StoreUnavailable: no answer, or a wrong password.
        """
        ...


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What an API server says about itself.

    Attributes:
        clock_ms: its Unix time, less ours at that moment; it tells whole seconds. None: it does not say.
    """

    version: str
    clock_ms: int | None


class ClusterProbe(Protocol):
    """One Kubernetes API server. Every call raises `PeerError`, and `ConfigurationError` for credentials."""

    def look(self) -> ClusterFacts:
        """Its version and clock."""
        ...

    def has_resource(self, group: str, version: str, resource: str) -> bool:
        """Whether it knows a resource, as those of a CRD."""
        ...

    def is_allowed(self, right: Right) -> bool:
        """Whether our credentials have a right."""
        ...


class Reach(Protocol):
    """Tries what listens at an address. Every call raises `PeerError`."""

    def connect(self, host: str, port: int, *, timeout_s: float) -> None:
        """Open a TCP connection and close it, without a word."""
        ...

    def status(self, url: str, *, timeout_s: float) -> int:
        """The HTTP status of a GET."""
        ...
