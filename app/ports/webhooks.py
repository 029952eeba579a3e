"""Port of webhooks: one POST to one address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class WebhookPoster(Protocol):
    """Posts bodies to the address of one webhook."""

    @property
    def peer(self) -> str:
        """Whom we post to, as an operator may see it."""
        ...

    def post(self, body: bytes, headers: Mapping[str, str], *, timeout_s: float) -> int:
        """POST a JSON body; the status of the answer, below 300.

        Raises:
            PeerError: not taken, or nobody knows; `PeerRefused` has the code.
        """
        ...

    def close(self) -> None:
        """Close all connections."""
        ...
