"""The platform that the configuration names."""

from __future__ import annotations

from app.config import Settings
from app.errors import ConfigurationError
from app.ports.platform import Platform


def build_platform(settings: Settings) -> Platform:
    """Where the VMs come from; connects at the first call.

    Raises:
        ConfigurationError: the kind is not built into this version, or its token can't be read.
    """
    if settings.platform.kind == "sim":
        from app.adapters.platform_sim import SimPlatform

        token = settings.platform.token()
        return SimPlatform(settings.platform.url.reveal(), token=token, namespace=settings.platform.namespace)
    raise ConfigurationError([f".platform.kind: {settings.platform.kind} is not in this version; use sim"])
