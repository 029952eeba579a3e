"""Redis over TLS: stores and broker trust whom they are told to, and tell who they are."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from typing import Any

import pytest
from kombu import Connection

from app.adapters.embedded_redis import EmbeddedRedis
from app.adapters.redis_access import redis_access
from app.adapters.redis_connection import RedisConnection
from app.config.loading import build_settings
from app.config.redis_section import RedisSettings
from app.errors import StoreUnavailable
from tests.fakes.certificates import Certificate, Certificates, make_certificates
from tests.freezing_proxy import FreezingProxy
from workers.transport import SturdyChannel, SturdyTransport


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def door(shared_redis: EmbeddedRedis, certificates: Certificates) -> Iterator[FreezingProxy]:
    """Redis behind TLS, for clients with a certificate of the authority."""
    made = _door(shared_redis, certificates, certificates.good)
    yield made
    made.close()


def _door(redis: EmbeddedRedis, certificates: Certificates, shown: Certificate) -> FreezingProxy:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(shown.cert, shown.key)
    context.load_verify_locations(certificates.authority.cert)
    context.verify_mode = ssl.CERT_REQUIRED
    return FreezingProxy(redis.socket_path, tls=context)


def _settings(door: FreezingProxy, certificates: Certificates, **changes: Any) -> RedisSettings:
    section = {
        "url": f"rediss://127.0.0.1:{door.port}/0",
        "tlsCaFile": str(certificates.authority.cert),
        "tlsCertFile": str(certificates.good.cert),
        "tlsKeyFile": str(certificates.good.key),
    }
    return build_settings({"redis": {**section, **changes}}, {}).redis


def test_stores_and_broker_talk_over_tls(
    door: FreezingProxy, certificates: Certificates, redis_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = _settings(door, certificates)
    connection = RedisConnection(settings)
    assert connection.execute("SET", f"{redis_prefix}:k", "v") == b"OK"
    monkeypatch.setattr(SturdyChannel, "access", redis_access(settings))
    with Connection("redis://unused", transport_options={"ack_emulation": False}) as broker:
        broker.transport_cls = SturdyTransport
        queue = broker.SimpleQueue(f"{redis_prefix}-queue")
        queue.put({"seq": 1})
        assert queue.get(timeout=20).payload == {"seq": 1}
        queue.close()


@pytest.mark.parametrize("trusted", ["stranger", None])
def test_a_server_that_is_not_vouched_for_is_refused(
    door: FreezingProxy, certificates: Certificates, trusted: str | None
) -> None:
    authority = None if trusted is None else str(certificates.stranger.cert)
    with pytest.raises(StoreUnavailable, match="certificate verify failed"):
        RedisConnection(_settings(door, certificates, tlsCaFile=authority)).execute("PING")


def test_a_client_without_certificate_is_refused_by_a_server_that_asks_for_one(
    door: FreezingProxy, certificates: Certificates
) -> None:
    with pytest.raises(StoreUnavailable):
        RedisConnection(_settings(door, certificates, tlsCertFile=None, tlsKeyFile=None)).execute("PING")


def test_a_certificate_for_another_host_is_taken_only_where_names_are_not_checked(
    shared_redis: EmbeddedRedis, certificates: Certificates
) -> None:
    door = _door(shared_redis, certificates, certificates.elsewhere)
    try:
        with pytest.raises(StoreUnavailable, match="certificate verify failed"):
            RedisConnection(_settings(door, certificates)).execute("PING")
        lax = _settings(door, certificates, tlsCheckHostname=False)
        assert RedisConnection(lax).execute("PING") == b"PONG"
    finally:
        door.close()


def test_a_half_open_connection_over_tls_ends_after_the_time_limit(
    door: FreezingProxy, certificates: Certificates
) -> None:
    connection = RedisConnection(_settings(door, certificates), socket_timeout_s=1.0)
    connection.execute("PING")
    assert door.freeze() == 1
    with pytest.raises(StoreUnavailable):
        connection.execute("PING")
    assert connection.execute("PING") == b"PONG"


def test_the_sentinels_of_a_master_are_asked_over_tls_too(certificates: Certificates) -> None:
    settings = build_settings(
        {
            "redis": {
                "url": "sentinels://127.0.0.1:1,localhost:2/3",
                "masterName": "main",
                "tlsCaFile": str(certificates.authority.cert),
            }
        },
        {},
    ).redis
    with pytest.raises(StoreUnavailable, match="no Sentinel answers and knows a master named main"):
        RedisConnection(settings).execute("PING")
    access = redis_access(settings)
    assert access.connection_class.__name__ == "TlsConnection"
    assert access.options["db"] == 3
