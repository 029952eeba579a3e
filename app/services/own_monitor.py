"""The monitor's memory rule for guests that have none (`monitor: none`), judged from the last sample."""

from __future__ import annotations

from app.core.model import Metrics
from app.core.resources import Resources
from app.ports.peers import DownscaleAnswer

KERNEL_BYTES = 100 * 2**20
"""Memory that the kernel keeps for itself (`spec/monitor-protocol.md`)."""

HEADROOM_BYTES = 100 * 2**20
"""What must stay free above the workload."""

THRESHOLD_FRACTION = 0.85


def judge_downscale(target: Resources, slot_bytes: int, metrics: Metrics | None) -> DownscaleAnswer:
    """Whether the workload of the last sample still fits into the target."""
    if metrics is None:
        return DownscaleAnswer(False, "no sample yet")
    threshold = (target.mem * slot_bytes - KERNEL_BYTES) * THRESHOLD_FRACTION
    needed = metrics.mem_bytes - KERNEL_BYTES + HEADROOM_BYTES
    if threshold < needed:
        return DownscaleAnswer(
            False, f"needs {needed / 2**20:.0f} MiB, the target leaves {max(threshold, 0) / 2**20:.0f} MiB"
        )
    return DownscaleAnswer(True, "")
