"""The options of a what-if run: names, meanings, and how a value is read.

They are the same on the command line and in a file of `--compare`. A value is text or a JSON number. What is
not given comes from the configuration in force.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from app.errors import InvalidInput, UsageError
from app.protocols.printable import printable
from app.protocols.quantity import parse_bytes, parse_milli_cpu

MAX_MILLI_CPU = 512_000
MAX_BYTES = 1 << 50
MAX_VMS = 64
LEAST_POLL_MS = 100
_LONGEST_MS = 7 * 86_400_000
_SPAN = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|[dhms]))+", re.ASCII)
_SPAN_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|[dhms])", re.ASCII)
_UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_STARTS = ("fit", "min", "max")

Value = int | float | str
"""An option's value once it is read: milli-CPU, bytes, milliseconds, a share, a count or a word."""


def _cpu(raw: object) -> int:
    milli = _quantity(parse_milli_cpu, raw, "CPUs, such as 4, 0.5 or 250m")
    return int(_within(milli, 1, MAX_MILLI_CPU, "must be above 0 and at most 512 CPUs"))


def _bytes(raw: object) -> int:
    count = _quantity(parse_bytes, raw, "bytes, such as 1Gi or 512Mi")
    return int(_within(count, 1, MAX_BYTES, "must be above 0 and at most 1Pi"))


def _quantity(parse: Callable[[object], int], raw: object, what: str) -> int:
    try:
        return parse(raw)
    except InvalidInput:
        raise ValueError(f"must be a quantity of {what}") from None


def _span(raw: object) -> int:
    """Milliseconds; a bare number is seconds."""
    text = str(raw).strip().lower() if not isinstance(raw, bool) else ""
    if len(text) <= 40 and _SPAN.fullmatch(text):
        total = sum(float(number) * _UNITS_MS[unit] for number, unit in _SPAN_PART.findall(text))
    else:
        total = _number(raw, "a duration, such as 30s, 5m, 200ms or a number of seconds") * 1000
    return round(_within(total, 0, _LONGEST_MS, "must lie between 0 and 7d"))


def _long_span(raw: object) -> int:
    milliseconds = _span(raw)
    return int(_within(milliseconds, LEAST_POLL_MS, _LONGEST_MS, f"must be at least {LEAST_POLL_MS}ms"))


def _share(raw: object) -> float:
    return _within(_number(raw, "a number from 0 to 1"), 0, 1, "must lie between 0 and 1")


def _load_target(raw: object) -> float:
    value = _number(raw, "a number")
    if not 0 < value < 2:
        raise ValueError("must be above 0 and below 2")
    return value


def _memory_target(raw: object) -> float:
    value = _number(raw, "a number")
    if not 0 < value < 1:
        raise ValueError("must be above 0 and below 1")
    return value


def _count(raw: object) -> int:
    value = _number(raw, "a whole number")
    if value != int(value):
        raise ValueError("must be a whole number")
    return int(value)


def _vms(raw: object) -> int:
    return int(_within(_count(raw), 1, MAX_VMS, f"must lie between 1 and {MAX_VMS}"))


def _seed(raw: object) -> int:
    return int(_within(_count(raw), 0, 2**53, "must lie between 0 and 2^53"))


def _start(raw: object) -> str:
    if raw not in _STARTS:
        raise ValueError("must be fit, min or max")
    return str(raw)


def _number(raw: object, what: str) -> float:
    try:
        value = math.nan if isinstance(raw, bool) else float(str(raw))
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"must be {what}")
    return value


def _within(value: float, least: float, most: float, problem: str) -> float:
    if not least <= value <= most:
        raise ValueError(problem)
    return value


@dataclass(frozen=True, slots=True)
class Option:
    """One option.

    Attributes:
        read: makes a value of text or of a JSON value; raises ValueError with what it must be.
        default: its value, as shown; None where the configuration or another option gives it.
    """

    name: str
    metavar: str
    read: Callable[[object], Value]
    help: str
    default: str | None = None


OPTIONS = (
    Option("min-cpu", "CPUS", _cpu, "Least CPUs of a VM.", "250m"),
    Option("max-cpu", "CPUS", _cpu, "Most CPUs of a VM.", "4"),
    Option("min-mem", "BYTES", _bytes, "Least memory of a VM.", "1Gi"),
    Option("max-mem", "BYTES", _bytes, "Most memory of a VM.", "16Gi"),
    Option("slot", "BYTES", _bytes, "Size of a memory slot.", "1Gi"),
    Option("unit-cpu", "CPUS", _cpu, "CPUs of a compute unit; else the configuration's."),
    Option("unit-mem", "BYTES", _bytes, "Memory of a compute unit; else the configuration's."),
    Option("start", "fit|min|max", _start, "First size: what the first demand needs, or a bound.", "fit"),
    Option("load-target", "X", _load_target, "Load per CPU to aim at; else the configuration's."),
    Option("mem-target", "X", _memory_target, "Share of memory to fill; else the configuration's."),
    Option("poll-period", "TIME", _long_span, "Period of the polls; else the configuration's."),
    Option("permit-delay", "TIME", _span, "What the scheduler takes to answer.", "20ms"),
    Option("monitor-delay", "TIME", _span, "What the monitor takes to answer.", "20ms"),
    Option("resize-delay", "TIME", _span, "What a resize takes.", "1s"),
    Option("poll-failures", "SHARE", _share, "Share of polls that give nothing.", "0"),
    Option("permit-failures", "SHARE", _share, "Share of requests to the scheduler that fail.", "0"),
    Option("resize-failures", "SHARE", _share, "Share of resizes that fail.", "0"),
    Option("monitor-failures", "SHARE", _share, "Share of requests to the monitor that fail.", "0"),
    Option("denials", "SHARE", _share, "Share of downscales denied for no reason of memory.", "0"),
    Option("seed", "N", _seed, "Chooses what fails.", "1"),
    Option("vms", "N", _vms, "VMs on the node; they play the traces in turn. Else one a trace."),
    Option("shift", "TIME", _span, "Each VM is so much further in its trace than the one before.", "0s"),
    Option("node-cpu", "CPUS", _cpu, "CPUs of the node; else enough for all."),
    Option("node-mem", "BYTES", _bytes, "Memory of the node; else enough for all."),
    Option("trace-cpus", "CPUS", _cpu, "CPUs that 100 in a trace are; else the VM's maximum."),
    Option("mem", "BYTES", _bytes, "Memory in use, where there is no memory trace.", "512Mi"),
    Option("trace-mem", "BYTES", _bytes, "Memory that 100 in a memory trace is; else the VM's maximum."),
    Option("step", "TIME", _long_span, "Grain of the demand and of the timeline.", "30s"),
)
BY_NAME: Mapping[str, Option] = {option.name: option for option in OPTIONS}


def read_options(given: Mapping[str, object], where: str) -> dict[str, Value]:
    """The values of the options that are given, by name; underscores count as dashes, null as not given.

    Args:
        where: the file, for errors; empty for the command line.

    Raises:
        UsageError: an unknown option, or a value that it can't have.
    """
    prefix = f"{where}: " if where else "--"
    values: dict[str, Value] = {}
    for key, raw in given.items():
        name = key.replace("_", "-").removeprefix("--")
        option = BY_NAME.get(name)
        if option is None:
            near = difflib.get_close_matches(name[:80], BY_NAME, n=1, cutoff=0.6)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise UsageError(f"{prefix}{printable(key, 60)}: unknown option{hint}")
        if raw is None:
            continue
        try:
            values[name] = option.read(raw)
        except ValueError as err:
            raise UsageError(f"{prefix}{name}: {printable(str(raw), 60)!r} {err}") from None
    return values
