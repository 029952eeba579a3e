"""When a guest refuses a downscale and when it asks for memory (`spec/monitor-protocol.md`, "Monitor side").

Pure; `now` is monotonic seconds, memory is bytes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

MIB = 1024 * 1024
KERNEL_BUFFER_BYTES = 100 * MIB
"""What the kernel keeps of a VM's memory."""
THRESHOLD_PERCENT = 85
"""Share of the usable memory that the workload may fill."""
DOWNSCALE_BUFFER_BYTES = 100 * MIB
"""What must be free above the workload's average for a downscale."""
SAMPLE_EVERY_S = 0.1
SAMPLES = 5
"""How many make an average."""
STALE_AFTER_S = 5.0
"""Silence of the sampler after which nothing may be decided."""
UPSCALE_REQUEST_EVERY_S = 1.0
"""At most one `UpscaleRequest` in this time."""


@dataclass(frozen=True, slots=True)
class DownscaleVerdict:
    """Whether a downscale is allowed, and why; `is_failure`: it could not be decided (an `InternalError`)."""

    is_allowed: bool
    status: str
    is_failure: bool = False


class MemoryPolicy:
    """The memory rule of one guest.

    Args:
        total_bytes: the VM's memory now.
    """

    def __init__(self, total_bytes: int) -> None:
        self._threshold = threshold_bytes(total_bytes)
        self._samples: deque[int] = deque(maxlen=SAMPLES)
        self._last_sample: float | None = None
        self._last_request: float | None = None

    @property
    def threshold(self) -> int:
        """Non-reclaimable memory above which more is asked for."""
        return self._threshold

    def resize(self, total_bytes: int) -> None:
        """The VM's memory is (about to be) this; called at each upscale and at each allowed downscale."""
        self._threshold = threshold_bytes(total_bytes)

    def record(self, now: float, non_reclaimable_bytes: int) -> bool:
        """Take a sample, every `SAMPLE_EVERY_S`; whether to send an `UpscaleRequest` now."""
        self._samples.append(non_reclaimable_bytes)
        self._last_sample = now
        if non_reclaimable_bytes <= self._threshold:
            return False
        if self._last_request is not None and now - self._last_request < UPSCALE_REQUEST_EVERY_S:
            return False
        self._last_request = now
        return True

    def judge_downscale(self, now: float, target_bytes: int) -> DownscaleVerdict:
        """Whether the workload would still fit into `target_bytes`; changes nothing."""
        if self._last_sample is not None and now - self._last_sample > STALE_AFTER_S:
            silence = now - self._last_sample
            return DownscaleVerdict(False, f"no memory sample for {silence:.1f} s", is_failure=True)
        if len(self._samples) < SAMPLES:
            return DownscaleVerdict(False, f"only {len(self._samples)} of {SAMPLES} memory samples so far")
        threshold = threshold_bytes(target_bytes)
        needed = sum(self._samples) / SAMPLES + DOWNSCALE_BUFFER_BYTES
        facts = f"limit {threshold // MIB} MiB, needed {needed / MIB:.0f} MiB"
        if threshold < needed:
            return DownscaleVerdict(False, f"too little memory would be left: {facts}")
        return DownscaleVerdict(True, f"enough memory is left: {facts}")


def threshold_bytes(total_bytes: int) -> int:
    """What the workload may fill of a VM with that much memory."""
    return max(total_bytes - KERNEL_BUFFER_BYTES, 0) * THRESHOLD_PERCENT // 100
