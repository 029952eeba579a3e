"""What `security` in the configuration means for our servers and clients (`docs/security.md`)."""

from __future__ import annotations

from app.adapters.client_tls import ClientTls, client_tls
from app.config.own_sections import read_secret
from app.config.security_section import GuestSecurity, ServerSecurity, Trust
from app.errors import ConfigurationError
from app.web.protection import Protection, server_tls


def protection(server: ServerSecurity, where: str) -> Protection:
    """The rules for one server of ours; reads its files.

    Args:
        where: path of the setting, such as `.security.servers.web`.

    Raises:
        ConfigurationError: a file can't be read, or is not what it should be.
    """
    tls = None
    if server.tls_cert_file is not None:
        tls = server_tls(server.tls_cert_file, server.tls_key_file, where=f"{where}.tlsCertFile")
    return Protection(server.callers(), bearer(server.token_file, f"{where}.tokenFile"), tls)


def peer_tls(peer: Trust, where: str) -> ClientTls:
    """Whom we believe when an address says https.

    Raises:
        ConfigurationError: the authorities' file can't be read.
    """
    return client_tls(peer.tls_ca_file, peer.tls_server_name, where=f"{where}.tlsCaFile")


def guest_tls(guest: GuestSecurity, where: str) -> ClientTls | None:
    """The same for servers in VMs, whose addresses don't say; None: plain.

    Raises:
        ConfigurationError: the authorities' file can't be read.
    """
    return peer_tls(guest, where) if guest.tls else None


def bearer(path: str | None, where: str) -> str | None:
    """The token in a file; None without one.

    Raises:
        ConfigurationError: the file can't be read, or holds what no header may carry.
    """
    if path is None:
        return None
    token = read_secret(path, where)
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise ConfigurationError([f"{where}: one line with a token of plain characters was expected"])
    return token
