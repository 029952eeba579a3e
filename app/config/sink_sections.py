"""Where events go, for billing and for scaling events alike: HTTP, S3, files."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.config.addresses import HttpUrl
from app.config.fields import Section, Text, setting
from app.config.own_sections import read_secret
from app.config.security_section import PeerSecurity, Trust


class HttpSinkSettings(PeerSecurity):
    """A server that takes batches of events, posted as `{"events": [...]}`; only a 200 counts."""

    url: HttpUrl = setting(..., "where batches are posted")


class S3SinkSettings(Trust):
    """A bucket of S3, or of what speaks like it; an object of gzipped JSON lines for each batch."""

    endpoint: HttpUrl = setting(..., "the server's address, without the bucket")
    bucket: Annotated[Text, Field(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")] = setting(..., "its name")
    prefix: Annotated[str, Field(max_length=200, pattern=r"^[A-Za-z0-9._/-]*$")] = setting(
        "", "what the objects' names begin with"
    )
    region: Annotated[Text, Field(pattern=r"^[a-z0-9-]{1,40}$")] = setting("us-east-1", "the region")
    access_key_file: Text = setting(..., "file with the access key's id")
    secret_key_file: Text = setting(..., "file with the secret access key")

    def keys(self, where: str) -> tuple[str, str]:
        """The id and the secret.

        Args:
            where: path of this section, for the error.

        Raises:
            ConfigurationError: a file can't be read.
        """
        return (
            read_secret(self.access_key_file, f"{where}.accessKeyFile"),
            read_secret(self.secret_key_file, f"{where}.secretKeyFile"),
        )


class FileSinkSettings(Section):
    """Files of gzipped JSON lines, beside each worker."""

    directory: Text = setting(..., "where they go; made with mode 0700 if it isn't there")
    max_bytes: Annotated[int, Field(ge=4096, le=2**40)] = setting(
        64 * 2**20, "a file that has as much is ended, and another begun", "bytes"
    )
    max_files: Annotated[int, Field(ge=2, le=1_000_000)] = setting(
        1000, "files of a worker; the oldest are deleted beyond that"
    )
