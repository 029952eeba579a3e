"""Self-made certificates for tests, by the openssl command: good ones, and some that must be refused."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

HERE = "IP:127.0.0.1,DNS:localhost"
ELSEWHERE = "DNS:elsewhere.example"


@dataclass(frozen=True)
class Certificate:
    """PEM files of a certificate and its key."""

    cert: Path
    key: Path


@dataclass(frozen=True)
class Certificates:
    """An authority, and what it has signed.

    Attributes:
        good: for 127.0.0.1 and localhost.
        expired: the same, ended yesterday.
        elsewhere: for another host's name.
        stranger: another authority, which has signed nothing here.
    """

    authority: Certificate
    good: Certificate
    expired: Certificate
    elsewhere: Certificate
    stranger: Certificate


def make_certificates(directory: Path) -> Certificates:
    """Takes a tenth of a second."""
    authority = _authority(directory, "authority")
    return Certificates(
        authority,
        _signed(directory, "good", authority, HERE, 2),
        _signed(directory, "expired", authority, HERE, -1),
        _signed(directory, "elsewhere", authority, ELSEWHERE, 2),
        _authority(directory, "stranger"),
    )


def _authority(directory: Path, name: str) -> Certificate:
    made = Certificate(directory / f"{name}.pem", directory / f"{name}.key")
    _openssl("req", "-x509", *_new_key(made), "-out", made.cert, "-days", "2", "-subj", f"/CN={name}")
    return made


def _signed(directory: Path, name: str, authority: Certificate, hosts: str, days: int) -> Certificate:
    made = Certificate(directory / f"{name}.pem", directory / f"{name}.key")
    request, extensions = directory / f"{name}.csr", directory / f"{name}.ext"
    extensions.write_text(f"subjectAltName={hosts}\n")
    _openssl("req", "-new", *_new_key(made), "-out", request, "-subj", f"/CN={name}")
    signer = ["-CA", authority.cert, "-CAkey", authority.key, "-CAcreateserial"]
    _openssl(
        "x509", "-req", "-in", request, *signer, "-days", str(days), "-extfile", extensions, "-out", made.cert
    )
    return made


def _new_key(made: Certificate) -> list[str | Path]:
    return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", made.key]


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=60)
