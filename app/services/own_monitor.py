"""The monitor's memory rule for guests that have none (`monitor: none`), judged from the last sample."""

from __future__ import annotations

from app.core.model import Metrics
from app.core.resources import Resources
from app.ports.peers import DownscaleAnswer
from app.protocols.memory_policy import DOWNSCALE_BUFFER_BYTES, MIB, threshold_bytes
from app.protocols.prometheus_text import KERNEL_BYTES


def judge_downscale(target: Resources, slot_bytes: int, metrics: Metrics | None) -> DownscaleAnswer:
    """Whether the workload of the last sample still fits into the target."""
    if metrics is None:
        return DownscaleAnswer(False, "no sample yet")
    threshold = threshold_bytes(target.mem * slot_bytes)
    # The sample counts the kernel's share in, which the threshold leaves out.
    needed = metrics.mem_bytes - KERNEL_BYTES + DOWNSCALE_BUFFER_BYTES
    if threshold < needed:
        return DownscaleAnswer(
            False, f"needs {needed / MIB:.0f} MiB, the target leaves {threshold / MIB:.0f} MiB"
        )
    return DownscaleAnswer(True, "")
