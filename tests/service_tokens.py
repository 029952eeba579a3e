"""Tokens of service accounts, signed here: a server's own live for ten minutes at least."""

from __future__ import annotations

import base64
import json
import subprocess
import time
from pathlib import Path


def sign_token(key: Path, issuer: str, namespace: str, name: str, uid: str, *, ends_in_s: float) -> str:
    """A token as `TokenRequest` makes them, for the API server itself.

    Args:
        key: file with the P-256 key that the server signs with.
        uid: of the service account.
        ends_in_s: seconds from now; negative: it has ended.
    """
    now = int(time.time())
    account = {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}}
    claims = {
        "iss": issuer,
        "aud": [issuer],
        "sub": f"system:serviceaccount:{namespace}:{name}",
        "iat": now - 600,
        "nbf": now - 600,
        "exp": int(now + ends_in_s),
        "kubernetes.io": account,
    }
    head = {"alg": "ES256", "typ": "JWT"}
    text = ".".join(_encode(json.dumps(part).encode()) for part in (head, claims))
    done = subprocess.run(
        ["openssl", "dgst", "-sha256", "-sign", str(key)],
        input=text.encode(),
        check=True,
        capture_output=True,
        timeout=60,
    )
    return f"{text}.{_encode(_raw_signature(done.stdout))}"


def _encode(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def _raw_signature(der: bytes) -> bytes:
    """The two numbers of an ECDSA signature, 32 bytes each, out of their DER sequence."""
    numbers, at = b"", 2
    for _ in range(2):
        length = der[at + 1]
        numbers += der[at + 2 : at + 2 + length].lstrip(b"\0").rjust(32, b"\0")
        at += 2 + length
    return numbers
