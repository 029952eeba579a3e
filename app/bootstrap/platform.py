"""The platform that the configuration names."""

from __future__ import annotations

from app.config import Settings
from app.errors import ConfigurationError
from app.ports.platform import Platform
from app.ports.sender import Sender


def build_platform(settings: Settings, sender: Sender | None = None) -> Platform:
    """Where the VMs come from; connects at the first call.

    Args:
        sender: who asks for sizes; None for a reader.

    Raises:
        ConfigurationError: the kind is not built into this version, or its token can't be read.
    """
    if settings.platform.kind == "sim":
        from app.adapters.platform_sim import SimPlatform

        token = settings.platform.token()
        return SimPlatform(
            settings.platform.url.reveal(),
            token=token,
            namespace=settings.platform.namespace,
            sender=sender,
        )
    raise ConfigurationError([f".platform.kind: {settings.platform.kind} is not in this version; use sim"])
