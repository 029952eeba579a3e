"""The section about Redis: where it is, how it is reached, and what it wants to hear (`docs/redis.md`)."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

from app.config.addresses import RedisUrl
from app.config.fields import Section, Text, setting, wrong
from app.config.own_sections import read_secret
from app.config.secret_url import SecretUrl
from app.errors import ConfigurationError

DEFAULT_PREFIX = "vmscaler"
"""What all keys begin with, unless the operator says otherwise."""


def _check_prefix(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", value):
        raise wrong("must be 1 to 64 letters, digits, dots, dashes and underscores")
    return value


class RedisSettings(Section):
    """Redis, for state and as the broker of tasks."""

    url: RedisUrl = setting(
        "redis://127.0.0.1:6379/0",
        "redis://, rediss:// (TLS), unix://, sentinel:// or sentinels:// (TLS) address, "
        "Sentinels with commas between them; a password in it is never shown",
    )
    prefix: Annotated[str, AfterValidator(_check_prefix)] = setting(
        DEFAULT_PREFIX, "what all keys begin with; several fleets on one Redis take different ones"
    )
    password_file: Text | None = setting(
        None, "file with the password, instead of one in the address; read anew for each connection"
    )
    master_name: Text | None = setting(None, "sentinel: the name that the Sentinels know the master by")
    sentinel_password_file: Text | None = setting(None, "sentinel: file with the Sentinels' own password")
    tls_ca_file: Text | None = setting(
        None, "TLS: file with the certificates to trust, beside the system's", alias="tlsCaFile"
    )
    tls_cert_file: Text | None = setting(None, "TLS: our own certificate, where Redis asks for one")
    tls_key_file: Text | None = setting(None, "TLS: the key of our own certificate")
    tls_check_hostname: bool = setting(
        True, "TLS: the certificate must name the host; false where Sentinels tell bare IP addresses"
    )

    @property
    def is_sentinel(self) -> bool:
        """Whether the address names Sentinels, which know where Redis is."""
        return self.url.parts.scheme in ("sentinel", "sentinels")

    @property
    def is_tls(self) -> bool:
        """Whether everything goes over TLS."""
        return self.url.parts.scheme in ("rediss", "sentinels")

    @property
    def is_socket(self) -> bool:
        """Whether Redis is on this machine, behind a unix socket."""
        return self.url.parts.scheme == "unix"

    @property
    def shown(self) -> str:
        """Where Redis is, as an operator names it: without user and password."""
        parts = self.url.parts
        place = parts.path if self.is_socket else parts.netloc.rpartition("@")[2]
        return f"{self.master_name} behind {place}" if self.is_sentinel else place

    def connection_url(self) -> SecretUrl:
        """The address with the password of `passwordFile` in it, if there is such a file; reads that file.

        Raises:
            ConfigurationError: the file can't be read.
        """
        password = self.file_password()
        return self.url if password is None else self.url.with_password(password)

    def file_password(self) -> str | None:
        """The password in `passwordFile`, read now; None without such a file.

        Raises:
            ConfigurationError: the file can't be read.
        """
        if self.password_file is None:
            return None
        return read_secret(self.password_file, ".redis.passwordFile")

    def sentinel_password(self) -> str | None:
        """The password in `sentinelPasswordFile`, read now; None without such a file.

        Raises:
            ConfigurationError: the file can't be read.
        """
        if self.sentinel_password_file is None:
            return None
        return read_secret(self.sentinel_password_file, ".redis.sentinelPasswordFile")

    def check_files(self) -> None:
        """Read every file that is named once.

        Raises:
            ConfigurationError: one of them can't be read.
        """
        self.file_password()
        self.sentinel_password()
        named = {
            ".redis.tlsCaFile": self.tls_ca_file,
            ".redis.tlsCertFile": self.tls_cert_file,
            ".redis.tlsKeyFile": self.tls_key_file,
        }
        problems = []
        for where, path in named.items():
            try:
                if path is not None:
                    with open(path, "rb") as file:
                        file.read(1)
            except OSError as err:
                problems.append(f"{where}: the file can't be read: {err.strerror}")
        if problems:
            raise ConfigurationError(problems)
