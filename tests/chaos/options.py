"""What an operator can set, by the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

USAGE = "CHAOS_SECONDS=600 CHAOS_SEED=7 make chaos"


class WrongOption(Exception):
    """A variable can't be used; the text names it."""


@dataclass(frozen=True, slots=True)
class Options:
    """One run.

    Attributes:
        seconds: of faults; warming up and the quiet end come beside.
        period_s: between two polls of a VM.
        lease_s: a third of it passes between two renewals at most, two thirds until a holder gives up.
        quiet_s: at the end, without faults, before the fleet must be whole again.
        keep: leave the directory there also when all is well.
    """

    seconds: float = 180.0
    seed: int = 1
    vms: int = 500
    workers: int = 4
    buckets: int = 64
    period_s: float = 10.0
    lease_s: float = 6.0
    quiet_s: float = 20.0
    stats_per_s: float = 10.0
    keep: bool = False


def read_options(environ: Mapping[str, str]) -> Options:
    """From `CHAOS_…`.

    Raises:
        WrongOption: a value is no number, or out of range.
    """
    return Options(
        seconds=_number(environ, "CHAOS_SECONDS", 180, 10, 86_400),
        seed=int(_number(environ, "CHAOS_SEED", 1, 0, 2**53)),
        vms=int(_number(environ, "CHAOS_VMS", 500, 1, 5_000)),
        workers=int(_number(environ, "CHAOS_WORKERS", 4, 2, 32)),
        buckets=int(_number(environ, "CHAOS_BUCKETS", 64, 2, 2_048)),
        period_s=_number(environ, "CHAOS_PERIOD", 10, 0.5, 60),
        lease_s=_number(environ, "CHAOS_LEASE", 6, 2, 60),
        quiet_s=_number(environ, "CHAOS_QUIET", 20, 5, 600),
        stats_per_s=_number(environ, "CHAOS_STATS", 10, 0, 100),
        keep=environ.get("CHAOS_KEEP", "") not in ("", "0"),
    )


def _number(environ: Mapping[str, str], name: str, default: float, least: float, most: float) -> float:
    text = environ.get(name, "").strip()
    if not text:
        return float(default)
    try:
        value = float(text)
    except ValueError:
        raise WrongOption(f"{name}={text!r} is no number; for example: {USAGE}") from None
    if not least <= value <= most:
        raise WrongOption(f"{name}={text} must be from {least:g} to {most:g}")
    return value
