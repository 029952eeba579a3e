"""Who may talk to our servers, and how we reach those of others (`docs/security.md`).

Tokens stand in files, never in the configuration; each is read when the process that needs it starts.
"""

from __future__ import annotations

import ipaddress
from typing import Annotated

from pydantic import AfterValidator, Field

from app.config.fields import Section, Text, setting, wrong
from app.protocols.access import AllowedAddresses


def _check_network(value: str) -> str:
    try:
        ipaddress.ip_network(value, strict=False)
    except ValueError:
        raise wrong("must be a network as 10.0.0.0/8, or an IP address") from None
    return value


Networks = Annotated[
    tuple[Annotated[Text, AfterValidator(_check_network)], ...], Field(strict=False, max_length=1_000)
]


class ServerSecurity(Section):
    """One server of ours: who may call it, and what it speaks."""

    allow: Networks = setting((), "networks whose addresses may call; none: everyone")
    token_file: Text | None = setting(
        None, "file with the bearer token that callers must send; /healthz and /readyz need none"
    )
    tls_cert_file: Text | None = setting(None, "speak TLS with the certificate in this PEM file, and …")
    tls_key_file: Text | None = setting(None, "… the key in this one; none: it is in that file, too")

    def callers(self) -> AllowedAddresses | None:
        """Who may call; None: everyone."""
        if not self.allow:
            return None
        return AllowedAddresses(tuple(ipaddress.ip_network(each, strict=False) for each in self.allow))


class ServersSecurity(Section):
    """Our servers, by kind."""

    web: ServerSecurity = setting(ServerSecurity(), "the workers' metrics, health, intake and state dump")
    node_scheduler: ServerSecurity = setting(ServerSecurity(), "the built-in scheduler")
    agents: ServerSecurity = setting(ServerSecurity(), "the ports on which informants call our agents")


class Trust(Section):
    """Whose certificates we believe."""

    tls_ca_file: Text | None = setting(
        None, "PEM file with the authorities that we believe; none: those of the system"
    )
    tls_server_name: Text | None = setting(
        None, "the name that certificates must be made out to; none: the host that we dial"
    )


class PeerSecurity(Trust):
    """Servers of others: what lets us in, beside."""

    token_file: Text | None = setting(None, "file with the bearer token that we send")


class GuestSecurity(PeerSecurity):
    """Servers in the VMs, whose addresses say nothing of TLS."""

    tls: bool = setting(False, "speak TLS with them")


class PeersSecurity(Section):
    """Servers of others, by kind."""

    scheduler: PeerSecurity = setting(PeerSecurity(), "the scheduler; TLS where its address is https://")
    platform: Trust = setting(Trust(), "sim: the fleet; TLS where platform.url is https://")
    metrics: GuestSecurity = setting(GuestSecurity(), "the VMs' metrics pages")
    monitor: GuestSecurity = setting(GuestSecurity(), "the VMs' vm-monitors")
    informant: GuestSecurity = setting(GuestSecurity(), "the VMs' informants")
    fleet: Trust = setting(
        Trust(),
        "our own workers and schedulers, as `dump` and `support-bundle` ask them; TLS where they speak it",
    )


class SecuritySettings(Section):
    """Who may talk to us, and how we are let in elsewhere (`docs/security.md`)."""

    servers: ServersSecurity = setting(ServersSecurity(), "our servers")
    peers: PeersSecurity = setting(PeersSecurity(), "servers of others")
