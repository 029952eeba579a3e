"""Addresses in the configuration: of Redis, of web servers, and hosts that we listen on."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated
from urllib.parse import parse_qsl

from pydantic import AfterValidator, PlainSerializer, PlainValidator

from app.config.fields import wrong
from app.config.secret_url import KeyUrl, SecretUrl

REDIS_SCHEMES = ("redis", "rediss", "unix", "sentinel", "sentinels")
WEB_SCHEMES = ("http", "https")
_HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?")


def parse_redis_url(value: object) -> SecretUrl:
    """An address of Redis: `redis://`, `rediss://` (TLS) or `unix://`, with a database number if any.

    `sentinel://` and `sentinels://` (TLS, to the Sentinels and to Redis) name Sentinels, with commas between.

    Raises:
        PydanticCustomError: told without the value.
    """
    url = _parse(value, REDIS_SCHEMES)
    parts = url.parts
    if parts.scheme == "unix":
        database = dict(parse_qsl(parts.query, keep_blank_values=True)).get("db", "0")
        is_plain = re.fullmatch(r"(db=[0-9]*)?", parts.query) is not None
    else:
        database, is_plain = parts.path.removeprefix("/") or "0", not parts.query
    if not is_plain:
        raise wrong("must have no options after ?, but db=N with unix://")
    if not re.fullmatch(r"[0-9]{1,4}", database):
        raise wrong("must end in a database number, as in redis://host:6379/0")
    return url


def parse_web_url(value: object) -> SecretUrl:
    """An `http://` or `https://` address to which paths are appended, so without `?`.

    Raises:
        PydanticCustomError: told without the value.
    """
    url = _parse(value, WEB_SCHEMES)
    if url.parts.query:
        raise wrong("must not have a part after ?")
    return url


def parse_webhook_url(value: object) -> KeyUrl:
    """An `http://` or `https://` address that is posted to as it is, so it may have a part after `?`.

    Raises:
        PydanticCustomError: told without the value.
    """
    return KeyUrl(_parse(value, WEB_SCHEMES).reveal(), WEB_SCHEMES)


def _parse(value: object, schemes: tuple[str, ...]) -> SecretUrl:
    if isinstance(value, SecretUrl):
        value = value.reveal()
    if not isinstance(value, str):
        raise wrong("must be text")
    try:
        return SecretUrl(value, schemes)
    except ValueError as problem:
        raise wrong(str(problem)) from None


def _check_host(value: str) -> str:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        if not _HOST_NAME.fullmatch(value):
            raise wrong("must be an IP address or a host name") from None
    return value


def parse_port_range(text: str) -> range:
    """The ports of `20000-20999` or `20000`; an empty range for `0`.

    Raises:
        PydanticCustomError: it is none.
    """
    found = re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", text)
    if found is None:
        raise wrong("must be ports as 20000-20999, or 0")
    first, last = int(found[1]), int(found[2] or found[1])
    if (first, last) == (0, 0):
        return range(0)
    if not 1 <= first <= last <= 65_535:
        raise wrong("must be ports from 1 to 65535, the lower one first, or 0")
    return range(first, last + 1)


def _check_port_range(value: str) -> str:
    parse_port_range(value)
    return value


RedisUrl = Annotated[SecretUrl, PlainValidator(parse_redis_url), PlainSerializer(str)]
HttpUrl = Annotated[SecretUrl, PlainValidator(parse_web_url), PlainSerializer(str)]
WebhookUrl = Annotated[KeyUrl, PlainValidator(parse_webhook_url), PlainSerializer(str)]
Host = Annotated[str, AfterValidator(_check_host)]
"""An address or name to listen on."""
PortRange = Annotated[str, AfterValidator(_check_port_range)]
"""Ports that we listen on, `20000-20999`, or 0 for free ones."""
