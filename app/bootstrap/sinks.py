"""The sinks that events go to, as the configuration names them."""

from __future__ import annotations

import time
from urllib.parse import urlunsplit

from app.adapters.sink_file import FileSink
from app.adapters.sink_http import HttpSink
from app.adapters.sink_s3 import S3Sink
from app.bootstrap.security import bearer, peer_tls
from app.config.secret_url import SecretUrl
from app.config.security_section import PeerSecurity
from app.config.sink_sections import FileSinkSettings, S3SinkSettings
from app.protocols.aws_signature import S3Credentials


def http_sink(url: SecretUrl, path: str, peer: PeerSecurity, where: str) -> HttpSink:
    """A server at `url`, with `path` behind it.

    Args:
        where: path of the settings, for errors.

    Raises:
        ConfigurationError: a file that they name can't be used.
    """
    parts = url.parts
    whole = urlunsplit(parts._replace(path=parts.path.rstrip("/") + path)) if path else url.reveal()
    return HttpSink(
        whole,
        str(url),
        bearer=bearer(peer.token_file, f"{where}.tokenFile"),
        tls=peer_tls(peer, where),
    )


def s3_sink(settings: S3SinkSettings, where: str) -> S3Sink:
    """A bucket.

    Raises:
        ConfigurationError: a file that the settings name can't be used.
    """
    access_key, secret_key = settings.keys(where)
    return S3Sink(
        settings.endpoint.reveal(),
        settings.bucket,
        settings.prefix,
        S3Credentials(access_key, secret_key, settings.region),
        moment=lambda: time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()),
        tls=peer_tls(settings, where),
    )


def file_sink(settings: FileSinkSettings, stem: str, worker: str) -> FileSink:
    """Files of this worker."""
    return FileSink(
        settings.directory, stem, worker, max_bytes=settings.max_bytes, max_files=settings.max_files
    )
