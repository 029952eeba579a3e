"""What an operator types of a peer: its address, sizes, time limits; as click's parameter types."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

import click

from app.cli.durations import parse_duration_ms
from app.errors import InvalidInput, UsageError
from app.ports.vm import Address
from app.protocols.quantity import parse_bytes, parse_milli_cpu

MAX_MILLI_CPU = 2**31 - 1
MAX_MEMORY_BYTES = 2**53 - 1
"""Above it a peer that takes numbers for doubles would lose bits."""
MAX_LIMIT_S = 3600.0
SECURE = {"ws": "wss", "http": "https"}
"""The schemes that are spoken, each with the one that means the same over TLS."""

_SECONDS = re.compile(r"[0-9]{1,5}(?:\.[0-9]{1,3})?", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,252})|[0-9A-Fa-f:.]{2,45}")


@dataclass(frozen=True, slots=True)
class PeerUrl:
    """Where a peer is: no user, password or query, for nothing secret belongs on a command line."""

    scheme: str
    address: Address
    path: str

    @property
    def is_secure(self) -> bool:
        """Whether TLS is spoken there."""
        return self.scheme in SECURE.values()

    def __str__(self) -> str:
        return f"{self.scheme}://{host_and_port(self.address)}{self.path}"


def host_and_port(address: Address) -> str:
    """The address as it stands in a URL."""
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{host}:{address.port}"


class UrlType(click.ParamType[PeerUrl]):
    """`SCHEME://HOST[:PORT]`, or `HOST[:PORT]` alone, which is without TLS.

    Args:
        scheme: without TLS; the one with it is taken, too.
        path: the only path that may stand there; None: any.
    """

    name = "URL"

    def __init__(self, scheme: str, default_port: int, path: str | None = None) -> None:
        self._scheme = scheme
        self._default_port = default_port
        self._path = path

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> PeerUrl:
        """See `click.ParamType.convert`."""
        if isinstance(value, PeerUrl):
            return value
        text = str(value)
        try:
            parts = urlsplit(text if "://" in text else f"{self._scheme}://{text}")
            host, port = parts.hostname or "", parts.port
        except ValueError:
            self.fail(f"not {self._example()}", param, ctx)
        if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
            self.fail("an address without user, password and ? is needed; see --token-file", param, ctx)
        if parts.scheme not in (self._scheme, SECURE[self._scheme]):
            self.fail(f"{parts.scheme}:// is not spoken here; write {self._example()}", param, ctx)
        path = parts.path.rstrip("/")
        if _HOST.fullmatch(host) is None or port == 0 or self._path not in (None, path or self._path):
            self.fail(f"not {self._example()}", param, ctx)
        address = Address(host, self._default_port if port is None else port)
        return PeerUrl(parts.scheme, address, self._path or path)

    def _example(self) -> str:
        return f"{self._scheme}://HOST:{self._default_port}{self._path or ''}"


class CpuType(click.ParamType[int]):
    """CPUs, as `2`, `1.5` or `250m`; gives milli-vCPU."""

    name = "N"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """See `click.ParamType.convert`."""
        try:
            milli = parse_milli_cpu(value)
        except InvalidInput as err:
            self.fail(err.problem, param, ctx)
        if not 0 < milli <= MAX_MILLI_CPU:
            self.fail("must be above zero, and below two million CPUs", param, ctx)
        return milli


class MemoryType(click.ParamType[int]):
    """Memory, as `4Gi` or a number of bytes; gives bytes."""

    name = "SIZE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """See `click.ParamType.convert`."""
        try:
            size = parse_bytes(value)
        except InvalidInput as err:
            self.fail(err.problem.replace("such as 2, 250m, 1.5, 1e3 or 1Gi", "such as 4Gi"), param, ctx)
        if not 0 < size <= MAX_MEMORY_BYTES:
            self.fail("must be above zero, and below 8 Pi", param, ctx)
        return size


class SecondsType(click.ParamType[float]):
    """A time: `2.5` are seconds, else as `90s` or `10m`."""

    name = "TIME"

    def __init__(self, longest_s: float = MAX_LIMIT_S) -> None:
        self._longest_s = longest_s

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """See `click.ParamType.convert`."""
        text = str(value)
        try:
            seconds = float(text) if _SECONDS.fullmatch(text) else parse_duration_ms(text) / 1000
        except UsageError as err:
            self.fail(str(err), param, ctx)
        if not 0 < seconds <= self._longest_s:
            self.fail(f"must be above zero, and at most {self._longest_s:g} s", param, ctx)
        return seconds
