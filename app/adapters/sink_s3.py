"""Puts batches of events into a bucket of S3, or of what speaks like it: an object for each batch.

An object is called after the key of its first event, so that a batch that is sent again takes the place of
what was sent before; it can only have grown. The signature is our own 40 lines.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from app.adapters.client_tls import ClientTls
from app.adapters.deadline_http import deadline_session, exchange
from app.errors import PeerRefused
from app.protocols.aws_signature import S3Credentials, quote_path, sign_s3_request
from app.protocols.printable import printable

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class S3Sink:
    """The `EventSink` port; objects are gzipped JSON lines.

    Args:
        endpoint: `https://s3.eu-central-1.amazonaws.com` or another server's address, without the bucket.
        prefix: of all objects' names.
        moment: now, as `YYYYMMDDTHHMMSSZ`.
        tls: whom we believe at an https:// address.
    """

    name = "s3"

    def __init__(
        self,
        endpoint: str,
        bucket: str,
        prefix: str,
        credentials: S3Credentials,
        moment: Callable[[], str],
        tls: ClientTls | None = None,
    ) -> None:
        self._endpoint = endpoint.rstrip("/")
        parts = urlsplit(self._endpoint)
        self._host, self._base = parts.netloc, parts.path.strip("/")
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._bucket = bucket
        self._prefix = prefix.strip("/")
        self._credentials = credentials
        self._moment = moment
        self._session = deadline_session(tls)
        self._peer = f"S3 bucket {bucket} at {parts.netloc}"

    def send(self, events: Sequence[bytes], *, label: str, timeout_s: float) -> None:
        """See `EventSink.send`."""
        body = gzip.compress(b"".join(event + b"\n" for event in events), mtime=0)
        path = quote_path(*filter(None, (self._base, self._bucket, self._prefix, object_name(label))))
        headers = sign_s3_request(
            self._credentials,
            "PUT",
            self._host,
            path,
            body,
            moment=self._moment(),
            headers={"content-type": "application/gzip"},
        )
        code, answer = exchange(
            self._session,
            "PUT",
            self._origin + path,
            body,
            headers=headers,
            timeout_s=timeout_s,
            peer=self._peer,
        )
        if code != 200:
            text = printable(answer.decode("utf-8", "replace"))
            raise PeerRefused(self._peer, f"HTTP status {code}: {text}", code=code)

    def close(self) -> None:
        """See `EventSink.close`."""
        self._session.close()


def object_name(label: str) -> str:
    """`YYYY/MM/DD/<label>.jsonl.gz`, for a label that begins with a moment."""
    day = label[:10].replace("-", "/") if re.match(r"\d{4}-\d{2}-\d{2}T", label) else "undated"
    return f"{day}/{_UNSAFE.sub('_', label)[:200]}.jsonl.gz"
