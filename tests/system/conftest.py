"""Fixtures for tests of whole processes."""

from __future__ import annotations

import pytest

from workers.transport import SturdyChannel


@pytest.fixture(autouse=True)
def brokers_are_where_their_addresses_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once anything here has imported `workers`, an address would mean the Redis of the configuration."""
    monkeypatch.setattr(SturdyChannel, "access", None)
