"""Who may talk to the daemon: callers limited to networks, and a bearer token."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app.guest.http_messages import Request, Response, text_response

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

MAX_TOKEN_BYTES = 4096


@dataclass(frozen=True, slots=True)
class AllowedAddresses:
    """Networks and host names; none at all: see where it is used."""

    networks: Sequence[Network] = ()
    names: frozenset[str] = frozenset()

    def has(self, host: str) -> bool:
        """Whether a host, as it was written, is one of them; names are not resolved."""
        address = parse_ip(host)
        if address is None:
            return host.lower() in self.names
        return any(address in network for network in self.networks)


@dataclass(frozen=True, slots=True)
class Access:
    """The rule for one server.

    Attributes:
        callers: None lets everyone in.
        token: what protected paths ask for; None: no path is protected.
    """

    callers: AllowedAddresses | None = None
    token: str | None = None

    def refusal(self, request: Request, *, is_protected: bool) -> Response | None:
        """The 403 or 401 for a request, or None where it may go on."""
        if self.callers is not None and not self.callers.has(request.peer):
            return text_response("this address may not call", 403)
        if is_protected and self.token is not None and not self._has_token(request):
            return Response(401, b"a bearer token is needed\n", headers=(("WWW-Authenticate", "Bearer"),))
        return None

    def _has_token(self, request: Request) -> bool:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        expected = (self.token or "").encode()
        # The server reads header bytes as Latin-1; going back gives the bytes that were sent.
        return scheme.lower() == "bearer" and hmac.compare_digest(
            given.strip().encode("latin-1", "replace"), expected
        )


def parse_ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An address; an IPv4 one that is mapped into IPv6 becomes plain. None where it is a name."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def is_same_host(caller: str, host: str) -> bool:
    """Whether `host` of an agent's address is the caller itself; `localhost` is any loopback address."""
    address = parse_ip(caller)
    if address is None:
        return False
    return address.is_loopback if host.lower() == "localhost" else parse_ip(host) == address


def parse_network(text: str) -> Network:
    """A CIDR, or one address. Raises ValueError."""
    return ipaddress.ip_network(text, strict=False)


def read_token(path: str) -> str:
    """The token in a file, blanks around it left out.

    Raises:
        OSError: the file can't be read.
        ValueError: it is empty, too long, or holds more than one line.
    """
    with Path(path).open("rb") as file:
        data = file.read(MAX_TOKEN_BYTES + 1)
    token = data.decode("utf-8").strip()
    if not token or len(data) > MAX_TOKEN_BYTES or any(not character.isprintable() for character in token):
        raise ValueError(f"{path}: one line with a token was expected")
    return token
