"""Fixtures for every kind of test: a real Redis on a unix socket, never on a fixed port."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.adapters.embedded_redis import EmbeddedRedis, start_embedded


def _short_directory() -> Path:
    # pytest's own temporary directories have paths too long for a unix socket.
    return Path(tempfile.mkdtemp(prefix="vmscaler-"))


def _serve() -> Iterator[EmbeddedRedis]:
    directory = _short_directory()
    server = start_embedded(directory)
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(directory)


@pytest.fixture(scope="session")
def shared_redis() -> Iterator[EmbeddedRedis]:
    """A server for the whole session (one per pytest-xdist process); keep apart with `redis_prefix`."""
    yield from _serve()


@pytest.fixture(scope="module")
def module_redis() -> Iterator[EmbeddedRedis]:
    """A server for one test module."""
    yield from _serve()


@pytest.fixture
def own_redis() -> Iterator[EmbeddedRedis]:
    """A server for one test, to be stopped, frozen or emptied at will."""
    yield from _serve()


@pytest.fixture
def redis_url(shared_redis: EmbeddedRedis) -> str:
    """The shared server's `unix://` address."""
    return shared_redis.url


@pytest.fixture
def redis_prefix() -> str:
    """A key prefix that no other test has."""
    return f"test-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def short_directory() -> Iterator[Path]:
    """A 0700 directory with a path short enough for unix sockets in it."""
    directory = _short_directory()
    try:
        yield directory
    finally:
        shutil.rmtree(directory)
