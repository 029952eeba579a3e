"""Signature version 4 of requests to S3 and what speaks like it: headers in, headers out.

Source: "Authenticating Requests (AWS Signature Version 4)", S3 API reference. Only what an upload needs: the
signature in a header, the body's digest in it, no query.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, slots=True)
class S3Credentials:
    """Who asks, and where.

    Attributes:
        secret_key: never shown.
    """

    access_key: str
    secret_key: str = field(repr=False)
    region: str


def sign_s3_request(
    credentials: S3Credentials,
    method: str,
    host: str,
    path: str,
    body: bytes,
    *,
    moment: str,
    headers: Mapping[str, str],
) -> dict[str, str]:
    """All headers of the request, `Host` left out, which the client adds.

    Args:
        host: as the client will say it, with its port where that isn't the scheme's own.
        path: as it is sent, quoted by `quote_path`.
        moment: `YYYYMMDDTHHMMSSZ`; a server refuses one that is over 15 minutes off.
        headers: others that are to be signed; their names in lower case.
    """
    digest = hashlib.sha256(body).hexdigest()
    signed = {**headers, "host": host, "x-amz-content-sha256": digest, "x-amz-date": moment}
    names = sorted(signed)
    canonical = "\n".join(
        [
            method,
            path,
            "",
            *(f"{name}:{' '.join(signed[name].split())}" for name in names),
            "",
            ";".join(names),
            digest,
        ]
    )
    scope = f"{moment[:8]}/{credentials.region}/s3/aws4_request"
    to_sign = "\n".join([ALGORITHM, moment, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{credentials.secret_key}".encode()
    for part in (moment[:8], credentials.region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, to_sign.encode(), "sha256").hex()
    del signed["host"]
    signed["authorization"] = (
        f"{ALGORITHM} Credential={credentials.access_key}/{scope}, "
        f"SignedHeaders={';'.join(names)}, Signature={signature}"
    )
    return signed


def quote_path(*parts: str) -> str:
    """The path of an object: each part quoted as S3 does it, slashes within a part kept."""
    return "/" + "/".join(quote(part, safe="-_.~/") for part in parts)
