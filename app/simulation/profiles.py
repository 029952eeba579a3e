"""What a simulated workload wants at a moment: a function of its seed and of its age, nothing else."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from app.simulation.noise import between, noise
from app.simulation.played_trace import PlayedTrace

DAY_S = 600.0
"""Length of a day of the daily wave: ten minutes, so that one can be watched."""


class Profile(StrEnum):
    """Kinds of load, as `vmscaler sim --profile-mix` names them."""

    STEADY = "steady"
    SPIKE = "spike"
    LEAK = "leak"
    IDLE = "idle"
    DAILY = "daily"
    FLAPPING = "flapping"


PROFILE_LOADS = {
    Profile.STEADY: "constant CPU and memory",
    Profile.SPIKE: "quiet, with a burst of 20 to 35 s every 80 to 140 s",
    Profile.LEAK: "memory grows in a line and falls back, every 90 to 240 s",
    Profile.IDLE: "next to nothing, on a VM that begins too large",
    Profile.DAILY: "a wave of CPU and memory, once a day of ten minutes",
    Profile.FLAPPING: "between two levels, with a new choice every 10 to 30 s",
}
"""What each profile does, for an operator."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What the workload wants.

    Attributes:
        cpu: CPUs.
        mem_bytes: memory that can't be reclaimed, the guest system's own included.
    """

    cpu: float
    mem_bytes: float


@dataclass(frozen=True, slots=True)
class Workload:
    """A profile with its scale, or a trace; `seed` and `name` fix every detail of a profile.

    Attributes:
        max_cpu: CPUs that the profile's peaks are relative to.
        max_mem_bytes: memory that the profile's peaks are relative to; no demand is above it.
        played: a trace that gives the CPU demand in the profile's place.
        played_cpus: CPUs that 100 in the trace is.
    """

    profile: Profile
    seed: int
    name: str
    max_cpu: float
    max_mem_bytes: float
    played: PlayedTrace | None = None
    played_cpus: float = 0.0

    @property
    def kind(self) -> str:
        """The profile's name; `trace` where a trace is played."""
        return self.profile.value if self.played is None else "trace"


def demand_at(workload: Workload, age_s: float) -> Demand:
    """The demand at an age in seconds (≥ 0), with a jitter that changes from second to second.

    A trace is played as it is; it says nothing of memory, which is that of a steady VM then.
    """
    if workload.played is not None:
        wanted = workload.played.mean(age_s) / 100 * workload.played_cpus
        return Demand(wanted, _steady(workload, age_s)[1] * workload.max_mem_bytes)
    cpu, memory = _SHAPES[workload.profile](workload, age_s)
    jitter = between(0.95, 1.05, workload.seed, workload.name, "jitter", int(age_s))
    return Demand(max(0.01, cpu * jitter) * workload.max_cpu, min(1.0, memory) * workload.max_mem_bytes)


def _steady(workload: Workload, age_s: float) -> tuple[float, float]:
    return _fixed(workload, "cpu", 0.15, 0.55), _fixed(workload, "mem", 0.15, 0.5)


def _idle(workload: Workload, age_s: float) -> tuple[float, float]:
    return _fixed(workload, "cpu", 0.005, 0.02), _fixed(workload, "mem", 0.012, 0.016)


def _spike(workload: Workload, age_s: float) -> tuple[float, float]:
    """Quiet, then a burst of 20 to 35 s every 80 to 140 s; the first one comes within 12 s."""
    period = _fixed(workload, "period", 80, 140)
    length = _fixed(workload, "length", 20, 35)
    since_begin = age_s - _fixed(workload, "begin", 3, 12)
    if since_begin >= 0 and since_begin % period < length:
        height = between(0.6, 1.1, workload.seed, workload.name, "height", int(since_begin // period))
        return height, _fixed(workload, "busy mem", 0.25, 0.45)
    return _fixed(workload, "quiet", 0.02, 0.06), _fixed(workload, "quiet mem", 0.03, 0.08)


def _leak(workload: Workload, age_s: float) -> tuple[float, float]:
    """Memory grows in a line and falls when the process is restarted, every 90 to 240 s."""
    period = _fixed(workload, "period", 90, 240)
    share = (age_s + _fixed(workload, "begin", 0, 0.4) * period) % period / period
    return _fixed(workload, "cpu", 0.05, 0.15), 0.05 + 0.75 * share


def _daily(workload: Workload, age_s: float) -> tuple[float, float]:
    """One wave a day; the day begins at another hour for each VM."""
    phase = age_s / DAY_S + _fixed(workload, "hour", 0, 1)
    wave = 0.5 - 0.5 * math.cos(2 * math.pi * phase)
    return 0.06 + 0.6 * wave, 0.12 + 0.3 * wave


def _flapping(workload: Workload, age_s: float) -> tuple[float, float]:
    """Between two levels, with a new choice every 10 to 30 s."""
    length = _fixed(workload, "length", 10, 30)
    is_high = noise(workload.seed, workload.name, "turn", int(age_s // length)) < 0.5
    return (0.5 if is_high else 0.1), (0.3 if is_high else 0.2)


def _fixed(workload: Workload, what: str, low: float, high: float) -> float:
    """A trait of this workload that never changes."""
    return between(low, high, workload.seed, workload.name, what)


_SHAPES = {
    Profile.STEADY: _steady,
    Profile.SPIKE: _spike,
    Profile.LEAK: _leak,
    Profile.IDLE: _idle,
    Profile.DAILY: _daily,
    Profile.FLAPPING: _flapping,
}
