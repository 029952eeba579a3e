"""The section about scaling events: where they go, and what is worth a notice (docs/events.md)."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from app.config.addresses import WebhookUrl
from app.config.fields import Seconds, Section, Text, setting, wrong
from app.config.own_sections import read_secret
from app.config.sink_sections import FileSinkSettings, HttpSinkSettings, S3SinkSettings
from app.errors import ConfigurationError, InvalidInput
from app.protocols.scaling_event import KINDS, NOTICES, TEMPLATE_NAMES
from app.protocols.webhook import check_template

MIN_SECRET_BYTES = 16
"""A shorter secret could be found from a signature."""


def _check_kind(value: str) -> str:
    if value not in KINDS:
        raise wrong(f"must be one of {', '.join(KINDS)}")
    return value


Kind = Annotated[Text, AfterValidator(_check_kind)]


def _check_template(value: str) -> str:
    try:
        check_template(value, TEMPLATE_NAMES)
    except InvalidInput as err:
        raise wrong(err.problem) from None
    return value


Template = Annotated[str, Field(min_length=2, max_length=10_000), AfterValidator(_check_template)]


class WebhookSettings(HttpSinkSettings):
    """An address that gets one signed POST for each event."""

    url: WebhookUrl = setting(..., "where events are posted, as it is; only its host is ever shown")
    name: Annotated[Text, Field(pattern=r"^[a-z][a-z0-9-]{0,39}$")] = setting(
        ..., "what it is called in counters and logs: small letters, digits, dashes"
    )
    secret_file: Text = setting(..., "file with the secret that signs each body, of 16 bytes or more")
    kinds: Annotated[tuple[Kind, ...], Field(strict=False, min_length=1, max_length=20)] = setting(
        NOTICES, "kinds of events that it gets; left out: the notices"
    )
    template: Template | None = setting(
        None, "body: JSON in which `{{name}}` stands for a value (docs/events.md); none: the whole event"
    )
    retry_for_seconds: Seconds = setting(
        600.0, "an event that could not be delivered for so long is dropped", "s"
    )

    def secret(self, where: str) -> str:
        """The secret.

        Raises:
            ConfigurationError: its file can't be read, or it is too short.
        """
        secret = read_secret(self.secret_file, f"{where}.secretFile")
        if len(secret.encode()) < MIN_SECRET_BYTES:
            raise ConfigurationError(
                [f"{where}.secretFile: the secret must have at least {MIN_SECRET_BYTES} bytes"]
            )
        return secret


class NoticeSettings(Section):
    """How long a condition holds before a notice begins."""

    at_maximum_seconds: Seconds = setting(300.0, "a VM at its maximum whose load asks for no less", "s")
    denied_seconds: Seconds = setting(120.0, "a size that the monitor or the scheduler refuses", "s")
    failed_seconds: Seconds = setting(30.0, "resizes that fail one after the other", "s")
    flap_changes: Annotated[int, Field(ge=2, le=1000)] = setting(6, "changes of direction …")
    flap_seconds: Seconds = setting(600.0, "… within so long", "s")


class ScalingEventsSettings(Section):
    """Events about VMs' sizes, for sinks in batches and for webhooks one by one; no target: none are made."""

    push_every_seconds: Seconds = setting(5.0, "how often what waits is delivered", "s")
    request_timeout_seconds: Seconds = setting(5.0, "limit of a delivery", "s")
    max_batch_size: Annotated[int, Field(gt=0, le=10_000)] = setting(200, "most events in a batch")
    max_queued_events: Annotated[int, Field(ge=10, le=1_000_000)] = setting(
        10_000, "events that wait in a worker for one target; the oldest are dropped beyond that"
    )
    http: HttpSinkSettings | None = setting(None, "a server that takes batches")
    s3: S3SinkSettings | None = setting(None, "S3")
    file: FileSinkSettings | None = setting(None, "files")
    webhooks: Annotated[tuple[WebhookSettings, ...], Field(strict=False, max_length=20)] = setting(
        (), "addresses that get single events"
    )
    notices: NoticeSettings = setting(NoticeSettings(), "what is worth a notice")

    @property
    def has_targets(self) -> bool:
        """Whether events go anywhere."""
        return bool(self.http or self.s3 or self.file or self.webhooks)
