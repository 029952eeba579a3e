"""The section about Flower, the web page that shows Celery's tasks (`docs/flower.md`)."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated

from pydantic import Field

from app.config.addresses import Host
from app.config.fields import OwnPort, Section, Text, setting
from app.errors import ConfigurationError

MIN_PASSWORD_LENGTH = 12
"""Characters; Flower itself does not slow down whoever guesses."""

MAX_LOGINS_BYTES = 64 * 1024
"""Of the file with users and passwords."""


class FlowerSettings(Section):
    """Flower's page; its own options and `FLOWER_…` variables go before."""

    host: Host = setting("127.0.0.1", "address to listen on; beyond loopback `authFile` is needed")
    port: OwnPort = setting(5555, "port; 0 for a free one")
    auth_file: Text | None = setting(
        None, "file with a line `user:password` for each who may look; none: whoever reaches the port"
    )
    read_only: bool = setting(
        True,
        "nobody sends tasks or changes workers from the page; workers obey no remote control but questions",
    )
    max_tasks: Annotated[int, Field(ge=100, le=1_000_000)] = setting(
        10_000, "tasks kept in memory, the newest ones"
    )
    tls_cert_file: Text | None = setting(None, "speak TLS with the certificate in this PEM file, and …")
    tls_key_file: Text | None = setting(None, "… the key in this one")

    def logins(self) -> list[str]:
        """The lines of `authFile`, read now; none without such a file.

        Raises:
            ConfigurationError: the file can't be read, or a line is not what it should be; none is shown.
        """
        return [] if self.auth_file is None else _read_logins(self.auth_file, ".flower.authFile")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens there; other names count as reachable."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _read_logins(path: str, where: str) -> list[str]:
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_LOGINS_BYTES + 1)
        text = content.decode("ascii")
    except OSError as error:
        raise ConfigurationError([f"{where}: the file can't be read: {error.strerror}"]) from None
    except ValueError:
        raise ConfigurationError([f"{where}: the file must be plain ASCII, or its name is none"]) from None
    if len(content) > MAX_LOGINS_BYTES:
        raise ConfigurationError([f"{where}: the file is longer than {MAX_LOGINS_BYTES} bytes"])
    lines = {number: line.strip() for number, line in enumerate(text.splitlines(), 1) if line.strip()}
    problems = [
        f"{where}: line {number}: {problem}" for number, line in lines.items() if (problem := _flaw(line))
    ]
    if not lines:
        problems = [f"{where}: no line `user:password` in the file"]
    if problems:
        raise ConfigurationError(problems)
    return list(lines.values())


def _flaw(line: str) -> str:
    """What is wrong with a line, without showing it; empty for a good one."""
    user, colon, password = line.partition(":")
    if not (user and colon and line.isprintable()):
        return "expected user:password"
    if len(password) < MIN_PASSWORD_LENGTH:
        return f"the password must have at least {MIN_PASSWORD_LENGTH} characters"
    return "" if " " not in line else "spaces are not allowed in user or password"
