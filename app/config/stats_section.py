"""The section about stats that VMs push where they can't be polled (docs/stats.md)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.config.fields import Number, Section, Text, setting
from app.config.own_sections import read_secret
from app.errors import ConfigurationError
from app.protocols.stat_tokens import MIN_SECRET_BYTES

SECRET_VARIABLE = "VMSCALER_STATS_SECRET"  # noqa: S105 - a variable's name
"""The secret itself, in place of a file."""


class StatsSettings(Section):
    """Intake of stats: `POST /v1/stats` on every worker, at the address of `web`."""

    enabled: bool = setting(False, "take stats; needs a secret")
    secret_file: Text | None = setting(
        None, f"file with the fleet's secret, of which VMs' tokens are made; or {SECRET_VARIABLE}"
    )
    rate_per_second: Annotated[Number, Field(gt=0, le=10_000)] = setting(
        10.0, "stats that one VM may push in the long run; at once, after a pause, `maxEntries`", "1/s"
    )
    max_entries: Annotated[int, Field(ge=1, le=1000)] = setting(100, "entries in one list")
    max_body_bytes: Annotated[int, Field(ge=1024, le=1_048_576)] = setting(
        65_536, "longest body of a request", "bytes"
    )
    journal: Text | None = setting(
        None, "file to which each step of each stat is appended as a JSON line; for tests"
    )

    def secret(self, from_environment: str | None) -> str:
        """The fleet's secret.

        Raises:
            ConfigurationError: there is none, it is too short, or its file can't be read.
        """
        place = ".stats.secretFile" if from_environment is None else SECRET_VARIABLE
        if from_environment is not None:
            secret = from_environment
        elif self.secret_file is not None:
            secret = read_secret(self.secret_file, place)
        else:
            raise ConfigurationError([f"{place}: must be set, or {SECRET_VARIABLE}, for stats to be taken"])
        if len(secret.encode("utf-8", "replace")) < MIN_SECRET_BYTES:
            raise ConfigurationError([f"{place}: the secret must have at least {MIN_SECRET_BYTES} bytes"])
        return secret
