"""How the broker is called: without a password, but for Flower, whose client makes its own connections."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.config import Settings
from app.config.loading import build_settings
from workers.broker import broker_tls, broker_url, transport_options


def settings(**redis: Any) -> Settings:
    return build_settings({"redis": redis}, {})


@pytest.mark.parametrize(
    ("section", "shown", "whole"),
    [
        ({"url": "redis://h:1/2"}, "redis://h:1/2", "redis://h:1/2"),
        ({"url": "redis://u:p%40w@h:1/2"}, "redis://h:1/2", "redis://u:p%40w@h:1/2"),
        ({"url": "rediss://:pw@h/0"}, "rediss://h/0", "rediss://:pw@h/0"),
        (
            {"url": "unix://:pw@/run/redis.sock?db=3"},
            "redis+socket:///run/redis.sock?virtual_host=3",
            "redis+socket://:pw@/run/redis.sock?virtual_host=3",
        ),
        (
            {"url": "sentinel://:pw@one,two:5/1", "masterName": "m"},
            "sentinel://one:26379/1",
            "sentinel://:pw@one:26379/1",
        ),
        (
            {"url": "sentinels://:pw@[::1]:7,two/1", "masterName": "m"},
            "sentinel://[::1]:7/1",
            "sentinel://:pw@[::1]:7/1",
        ),
    ],
)
def test_the_address_has_a_password_for_flower_only(section: dict[str, str], shown: str, whole: str) -> None:
    redis = settings(**section).redis
    assert broker_url(redis, with_password=False) == shown
    assert broker_url(redis, with_password=True) == whole


def test_a_password_file_is_read_for_flower(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("p@w\n")
    redis = settings(url="redis://h:1/2", passwordFile=str(file)).redis
    assert broker_url(redis, with_password=True) == "redis://:p%40w@h:1/2"
    assert "p%40w" not in broker_url(redis, with_password=False)


def test_the_sentinels_password_goes_to_flower_and_to_no_other_process(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("s3cret\n")
    found = settings(url="sentinel://h", masterName="main", sentinelPasswordFile=str(file))
    for_flower = transport_options(found, with_password=True)
    assert for_flower["master_name"] == "main"
    assert for_flower["sentinel_kwargs"] == {"password": "s3cret"}
    assert "s3cret" not in str(transport_options(found, with_password=False))


def test_a_prefix_of_its_own_stands_before_celerys_keys_too() -> None:
    assert "global_keyprefix" not in transport_options(settings(), with_password=False)
    options = transport_options(settings(prefix="other"), with_password=False)
    assert options["global_keyprefix"] == "other:"


def test_tls_is_told_where_it_is_used() -> None:
    assert broker_tls(settings().redis) is None
    told = broker_tls(settings(url="rediss://h").redis)
    assert told is not None
    assert told["ssl_cert_reqs"] == "required"
