"""Move towards a size within bounds (`spec/core.md`, `clamp`).

Total: a bound on the wrong side of what is current makes the field stay, and no field moves away from
`desired`.
"""

from __future__ import annotations

from app.core.resources import MilliCpu, Resources, Slots


def clamp(
    current: Resources, desired: Resources, *, lower: Resources | None, upper: Resources | None
) -> Resources:
    """As far from `current` to `desired` as the bounds allow, field by field; None is no bound.

    Downwards not below `lower`, upwards not above `upper`; each may lie on either side of `current`.
    """
    if current == desired:
        return desired
    low_cpu, low_mem = (None, None) if lower is None else (lower.cpu, lower.mem)
    high_cpu, high_mem = (None, None) if upper is None else (upper.cpu, upper.mem)
    return Resources(
        MilliCpu(_clamp(current.cpu, desired.cpu, low_cpu, high_cpu)),
        Slots(_clamp(current.mem, desired.mem, low_mem, high_mem)),
    )


def _clamp(current: int, desired: int, lower: int | None, upper: int | None) -> int:
    if desired < current and lower is not None:
        return max(desired, min(lower, current))
    if desired > current and upper is not None:
        return min(desired, max(upper, current))
    return desired
