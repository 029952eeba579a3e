"""TLS of the servers that run on asyncio: the daemon's and the simulated fleet's."""

from __future__ import annotations

import ssl
from pathlib import Path


def server_tls(certificate: str, key: str | None) -> ssl.SSLContext:
    """A server's side of TLS 1.2 and later.

    Args:
        certificate: a PEM file with the certificate and what chains it.
        key: a PEM file with its key, without a passphrase; None: the key is in the certificate's file.

    Raises:
        ValueError: a file can't be read, or they don't belong together; the text names the file.
    """
    for path in (certificate, key):
        try:
            if path is not None:
                Path(path).read_bytes()
        except OSError as err:
            raise ValueError(f"{path}: {err.strerror}") from err
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        # Without a password of ours OpenSSL would ask for one on the terminal.
        context.load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, ValueError) as err:
        where = certificate if key is None else f"{certificate}, {key}"
        raise ValueError(f"{where}: no certificate with the key that belongs to it, in PEM") from err
    return context
