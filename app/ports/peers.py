"""Ports to the peers of a VM: its metrics page, its vm-monitor, the scheduler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from app.core.model import Metrics
from app.core.resources import Resources
from app.ports.store import FencingToken
from app.ports.vm import Address, VirtualMachine


class MetricsSource(Protocol):
    """Reads metrics pages, over connections that are kept alive."""

    def fetch(self, address: Address, *, timeout_s: float) -> bytes:
        """The page's bytes, at most 1 MiB.

        Raises:
            PeerTimedOut: the page was not complete in time (slow drip included).
            PeerRefused: not a 200, too large, or not HTTP.
            PeerUnreachable: no connection.
        """
        ...

    def forget(self, address: Address) -> None:
        """Close what is kept for a VM that is gone."""
        ...

    def close(self) -> None:
        """Close everything."""
        ...


@dataclass(frozen=True, slots=True)
class DownscaleAnswer:
    """A monitor's word on a downscale; `status` is the peer's text, untrusted."""

    is_allowed: bool
    status: str


class MonitorSession(Protocol):
    """One live connection to a vm-monitor; ends once, for good."""

    def serve(self, is_wanted: Callable[[], bool]) -> None:
        """Receive until the connection is over; called once, by the job that owns it.

        Until then no answer is seen. `is_wanted` is asked at each message and at each health check; the
        connection is closed once it says no.
        """
        ...

    def downscale(self, target: Resources, slot_bytes: int, *, timeout_s: float) -> DownscaleAnswer:
        """Ask for leave. Raises PeerError (timed out, refused, connection ended)."""
        ...

    def upscale(self, granted: Resources, slot_bytes: int, *, timeout_s: float) -> None:
        """Tell of more resources, wait for the confirmation. Raises PeerError."""
        ...

    @property
    def exited(self) -> bool:
        """Whether the connection is over."""
        ...

    @property
    def waiters_size(self) -> int:
        """Calls that wait for an answer."""
        ...

    def close(self) -> None:
        """End it; a second time does nothing."""
        ...


@dataclass(frozen=True, slots=True)
class MonitorCallbacks:
    """What a session tells its runner; called from the job that serves it.

    Attributes:
        on_upscale_request: the guest asks for memory.
        on_success: something was answered (health checks too): the peer lives.
        on_exit: the connection is over, with the reason as text; called exactly once.
    """

    on_upscale_request: Callable[[], None]
    on_success: Callable[[], None]
    on_exit: Callable[[str], None]


class MonitorConnector(Protocol):
    """Dials vm-monitors."""

    def connect(self, address: Address, callbacks: MonitorCallbacks, *, timeout_s: float) -> MonitorSession:
        """Connect and shake hands within `timeout_s`. Raises PeerError."""
        ...


@dataclass(frozen=True, slots=True)
class SchedulerInfo:
    """A scheduler that can be asked.

    Attributes:
        uid: differs between two schedulers; a change means a new one.
        url: where it is asked.
    """

    name: str
    uid: str
    url: str


@dataclass(frozen=True, slots=True)
class PermitAnswer:
    """What the scheduler granted; `is_migrating`: the VM's size must not change any more."""

    permit: Resources
    compute_unit: Resources
    is_migrating: bool


@dataclass(frozen=True, slots=True)
class PermitQuestion:
    """What is asked for one VM."""

    vm: VirtualMachine
    target: Resources
    last_permit: Resources | None
    metrics: Metrics | None
    token: FencingToken


class SchedulerClient(Protocol):
    """Asks schedulers for permits, over connections that are kept alive."""

    def ask(
        self, scheduler: SchedulerInfo, question: PermitQuestion, *, timeout_s: float | None
    ) -> PermitAnswer:
        """One request, never batched. Raises PeerError; `PeerRefused.code` is the HTTP status."""
        ...


class SchedulerWatch(Protocol):
    """Which scheduler is in charge."""

    def current(self) -> SchedulerInfo | None:
        """The one in charge, or None. May read Redis or an API server; called once a second per worker."""
        ...
