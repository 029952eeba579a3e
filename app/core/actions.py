"""What the core wants done: up to four requests and a wait (`spec/core.md`, "next_actions")."""

from __future__ import annotations

from dataclasses import dataclass

from app.core.model import Metrics, Millis
from app.core.resources import Resources


@dataclass(frozen=True, slots=True)
class PluginRequest:
    """Ask or tell the scheduler; `target` may equal what is in use (a mere tick)."""

    last_permit: Resources | None
    target: Resources
    metrics: Metrics | None


@dataclass(frozen=True, slots=True)
class Resize:
    """Go from `current` to `target`: for the platform, or for the monitor up or down."""

    current: Resources
    target: Resources


@dataclass(frozen=True, slots=True)
class ActionSet:
    """The answer of `next_actions`.

    Attributes:
        desired: the size that the core is after; None in a set that no core computed.
        wait: milliseconds after which to ask again even if nothing happens; None: no need.
        reasons: what was wanted and what stood in its way, a sentence each; shown by `explain` and `replay`.
    """

    plugin: PluginRequest | None = None
    platform: Resize | None = None
    monitor_upscale: Resize | None = None
    monitor_downscale: Resize | None = None
    wait: Millis | None = None
    desired: Resources | None = None
    reasons: tuple[str, ...] = ()

    @property
    def has_requests(self) -> bool:
        """Whether there is anything to do besides waiting."""
        return (
            self.plugin is not None
            or self.platform is not None
            or self.monitor_upscale is not None
            or self.monitor_downscale is not None
        )
