"""Who may call a server: networks, host names, and a bearer token; the same rules in guests and workers.

Pure: nothing is looked up, names are compared as they are written.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


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


def is_bearer(header: str, token: str) -> bool:
    """Whether an `Authorization` header carries this token; takes as long wherever they differ.

    Args:
        header: as servers read it: its bytes taken for Latin-1, which going back gives them again.
    """
    scheme, _, given = header.partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(
        given.strip().encode("latin-1", "replace"), token.encode()
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
