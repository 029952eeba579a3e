"""Where Redis is: Sentinels, TLS, and what does not go together."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.config.loading import build_settings
from app.config.redis_section import RedisSettings
from app.errors import ConfigurationError


def redis(**section: object) -> RedisSettings:
    return build_settings({"redis": section}, {}).redis


def test_sentinels_are_named_with_commas_between_them() -> None:
    found = redis(url="sentinel://:s3cret@one:1,two,[::1]:3/2", masterName="main")
    assert found.url.places == (("one", 1), ("two", None), ("::1", 3))
    assert found.is_sentinel
    assert not found.is_tls
    assert str(found.url) == "sentinel://:***@one:1,two,[::1]:3/2"
    assert found.shown == "main behind one:1,two,[::1]:3"


def test_a_password_file_goes_into_an_address_of_sentinels_too(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("a,b@c\n")
    found = redis(url="sentinels://one,two:5/1", masterName="main", passwordFile=str(file))
    assert found.connection_url().reveal() == "sentinels://:a%2Cb%40c@one,two:5/1"
    assert found.connection_url().places == (("one", None), ("two", 5))


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ({"url": "sentinel://a"}, ".redis.masterName: must be set: .redis.url names Sentinels"),
        ({"url": "redis://a,b"}, ".redis.url: must name one host; several are for sentinel and sentinels"),
        ({"url": "sentinel://a,:3", "masterName": "m"}, ".redis.url: must name a host"),
        ({"url": "sentinel://a,b:0", "masterName": "m"}, ".redis.url: must not have port 0"),
        ({"masterName": "m"}, ".redis.masterName: is for sentinel:// and sentinels:// only"),
        (
            {"sentinelPasswordFile": "/x"},
            ".redis.sentinelPasswordFile: is for sentinel:// and sentinels:// only",
        ),
        ({"tlsCaFile": "/x"}, ".redis.tlsCaFile: is for rediss:// and sentinels:// only"),
        ({"url": "rediss://a", "tlsCertFile": "/x"}, ".redis.tlsKeyFile: must be set beside"),
        ({"url": "rediss://a", "tlsKeyFile": "/x"}, ".redis.tlsCertFile: must be set beside"),
    ],
)
def test_what_does_not_go_together_is_a_mistake(section: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        redis(**section)
    assert any(told.startswith(problem) for told in caught.value.problems), caught.value.problems


def test_each_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    there = tmp_path / "ca"
    there.write_text("x")
    missing = str(tmp_path / "missing")
    found = redis(url="rediss://a", tlsCaFile=str(there), tlsCertFile=missing, tlsKeyFile=missing)
    with pytest.raises(ConfigurationError) as caught:
        found.check_files()
    assert caught.value.problems == (
        ".redis.tlsCertFile: the file can't be read: No such file or directory",
        ".redis.tlsKeyFile: the file can't be read: No such file or directory",
    )
