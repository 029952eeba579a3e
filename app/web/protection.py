"""Who may talk to an HTTP server of ours, and the TLS that it speaks (`docs/security.md`)."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

from gevent.ssl import SSLContext

from app.errors import ConfigurationError
from app.protocols.access import AllowedAddresses, is_bearer
from app.web.replies import Reply, text_reply

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

HEALTH_PATHS = ("/healthz", "/readyz")
"""Asked by probes, which carry no token; they tell nothing but whether we are well."""


@dataclass(frozen=True, slots=True)
class Protection:
    """The rules for one server.

    Attributes:
        callers: None lets everyone in.
        token: the bearer token that is asked for everywhere but at `HEALTH_PATHS`; None: none is.
        tls: None: plain HTTP.
        own_tokens: pages that ask for tokens of their own, and not for this one.
    """

    callers: AllowedAddresses | None = None
    token: str | None = None
    tls: SSLContext | None = None
    own_tokens: frozenset[str] = frozenset()

    @property
    def scheme(self) -> str:
        """Of the server's addresses."""
        return "http" if self.tls is None else "https"

    def guard(self, application: WSGIApplication) -> WSGIApplication:
        """The application behind these rules: 403 for other callers, 401 without the token."""
        if self.callers is None and self.token is None:
            return application

        def guarded(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
            refusal = self._refusal(environ)
            return application(environ, start_response) if refusal is None else refusal.send(start_response)

        return guarded

    def _refusal(self, environ: WSGIEnvironment) -> Reply | None:
        if self.callers is not None and not self.callers.has(environ.get("REMOTE_ADDR", "")):
            return text_reply(HTTPStatus.FORBIDDEN, "this address may not call")
        path = environ.get("PATH_INFO")
        if self.token is None or path in HEALTH_PATHS or path in self.own_tokens:
            return None
        if is_bearer(environ.get("HTTP_AUTHORIZATION", ""), self.token):
            return None
        return Reply(HTTPStatus.UNAUTHORIZED, b"a bearer token is needed", challenge="Bearer")


def server_tls(certificate: str, key: str | None, *, where: str) -> SSLContext:
    """A server's side of TLS 1.2 and later.

    Args:
        certificate: a PEM file with the certificate and what chains it.
        key: a PEM file with its key, without a passphrase; None: the key is in the certificate's file.
        where: the setting that names the file, for the error.

    Raises:
        ConfigurationError: a file can't be read, or they don't belong together.
    """
    for path in (certificate, key):
        try:
            if path is not None:
                Path(path).read_bytes()
        except (OSError, ValueError) as err:
            problem = getattr(err, "strerror", None) or "no file name"
            raise ConfigurationError([f"{where}: {path} can't be read: {problem}"]) from None
    context = SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # Without a password of ours OpenSSL would ask for one on the terminal.
        context.load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, ValueError):
        both = certificate if key is None else f"{certificate}, {key}"
        problem = f"{where}: {both}: no certificate with the key that belongs to it, in PEM"
        raise ConfigurationError([problem]) from None
    return context
