"""Options of the commands that serve: who may call, and TLS; each stands in for a setting."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import click

from app.config.security_section import ServerSecurity
from app.errors import UsageError
from app.protocols.access import AllowedAddresses, parse_network


class Listening(NamedTuple):
    """Where to listen, and to whom; None: to everyone."""

    host: str
    port: int
    callers: AllowedAddresses | None


def server_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command `--allow`, `--token-file`, `--tls-cert` and `--tls-key`, which it gets as `security`.

    That is a `ServerSecurity` of what was named alone; None where nothing was.
    """

    @click.option("--allow", multiple=True, metavar="CIDR", help="Who may call; else everyone.")
    @click.option("--token-file", metavar="FILE", help="A file with the bearer token that callers must send.")
    @click.option("--tls-cert", metavar="FILE", help="Speak TLS with the certificate in this PEM file,")
    @click.option("--tls-key", metavar="FILE", help="and the key in this one; else it is in that file, too.")
    @functools.wraps(command)
    def with_security(
        *arguments: Any,
        allow: tuple[str, ...],
        token_file: str | None,
        tls_cert: str | None,
        tls_key: str | None,
        **options: Any,
    ) -> None:
        if tls_key is not None and tls_cert is None:
            raise UsageError("--tls-key needs --tls-cert")
        read_callers(allow)
        named = {"allow": allow, "token_file": token_file, "tls_cert_file": tls_cert, "tls_key_file": tls_key}
        given = {name: value for name, value in named.items() if value}
        command(*arguments, security=ServerSecurity.model_validate(given) if given else None, **options)

    return with_security


def read_callers(allow: tuple[str, ...]) -> AllowedAddresses | None:
    """What was given with `--allow`; None: everyone may call. Raises UsageError."""
    try:
        return AllowedAddresses(tuple(parse_network(text) for text in allow)) if allow else None
    except ValueError as err:
        raise UsageError(f"--allow: {err}") from None


def merged(named: ServerSecurity | None, configured: ServerSecurity) -> ServerSecurity:
    """What is configured, with what was named in its place; a certificate comes with its own key."""
    if named is None:
        return configured
    given = named.model_dump(exclude_unset=True)
    if named.tls_cert_file is not None:
        given["tls_key_file"] = named.tls_key_file
    return configured.model_copy(update=given)
