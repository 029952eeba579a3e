"""No task waits for a pause of the transport."""

from __future__ import annotations

from typing import Any

from kombu import Connection

from app.config import build_settings
from workers.broker import transport_options
from workers.transport import SturdyTransport


def test_a_read_that_found_nothing_is_followed_by_the_next_without_a_pause() -> None:
    options: dict[str, Any] = transport_options(build_settings({}, {}), with_password=False)
    transport: Any = SturdyTransport(Connection("redis://", transport_options=options))
    assert transport.brpop_timeout == options["polling_interval"] == 0.2
    assert transport.polling_interval is None
