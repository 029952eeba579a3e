"""A process' own HTTP server, as its services see it."""

from __future__ import annotations

from typing import Protocol

from app.ports.runtime import Signal


class Endpoint(Protocol):
    """Serves pages to whoever asks."""

    @property
    def address(self) -> str | None:
        """Where others reach it, `host:port`; None while it does not listen."""
        ...

    @property
    def problem(self) -> str:
        """Why nothing is served; "" while all is well."""
        ...

    def run(self, stop: Signal) -> None:
        """Listen, and serve until stopped."""
        ...
