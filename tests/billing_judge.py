"""Holds the events that a sink got against the slices that a journal has: the same seconds, each once.

The journal has a line for each step, and then one for each slice in it, before the step is done. It was done
unless a later line has the same number: whoever came next then found the one before it in Redis.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple


class Sums(NamedTuple):
    """Milli-CPU × ms, and ms."""

    cpu: int
    active: int


Identity = tuple[str, str, str]
"""VM key, uid, endpoint id."""


def journal_sums(lines: Iterable[Mapping[str, Any]], last_steps: Mapping[str, int]) -> dict[Identity, Sums]:
    """What was used by each meter, from the slices of steps that were done.

    Args:
        lines: in the order in which each process wrote them; processes of a bucket differ by their tokens.
        last_steps: by bucket, the number of the last step that was done.
    """
    tokens: dict[tuple[str, int], int] = {}
    kept = [line for line in lines if line["step"] <= last_steps.get(line["bucket"], 0)]
    for line in kept:
        place = (line["bucket"], line["step"])
        tokens[place] = max(tokens.get(place, 0), line["token"])
    found: dict[Identity, Sums] = defaultdict(lambda: Sums(0, 0))
    for line in kept:
        if "key" in line and line["token"] == tokens[line["bucket"], line["step"]]:
            identity = (line["key"], line["uid"], line["endpoint_id"])
            before, ms = found[identity], line["active_ms"]
            found[identity] = Sums(before.cpu + line["cpu"] * ms, before.active + ms)
    return dict(found)


def once(events: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Each key once, as a sink counts; the same key must be the same event."""
    kept: dict[str, Mapping[str, Any]] = {}
    for event in events:
        assert kept.setdefault(event["idempotency_key"], event) == event, "one key, two events"
    return list(kept.values())


def billed(events: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], int]:
    """Whole seconds by endpoint id and metric."""
    sums: dict[tuple[str, str], int] = defaultdict(int)
    for event in once(events):
        sums[event["endpoint_id"], event["metric"]] += event["value"]
    return dict(sums)


def differences(
    events: Iterable[Mapping[str, Any]], used: Mapping[Identity, Sums], *, cpu: str, active: str
) -> list[str]:
    """Endpoints whose events are not what was used, to half a second for each of their meters."""
    sums, wrong = billed(events), []
    expected: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for (_, _, endpoint), meter in used.items():
        for metric, seconds in ((cpu, meter.cpu / 1e6), (active, meter.active / 1e3)):
            expected[endpoint, metric][0] += seconds
            expected[endpoint, metric][1] += 0.5
    for place in sorted(expected.keys() | sums.keys()):
        seconds, tolerance = expected[place]
        if abs(sums.get(place, 0) - seconds) > tolerance + 1e-6:
            wrong.append(f"{place[0]} {place[1]}: billed {sums.get(place, 0)} s, used {seconds:.3f} s")
    return wrong


def out_of_order(events: Iterable[Mapping[str, Any]]) -> list[str]:
    """Windows that do not end after they begin, or begin before the end of the one that arrived before.

    Of one endpoint and metric; VMs must not share an endpoint.
    """
    ends: dict[tuple[str, str], datetime] = {}
    wrong = []
    for event in once(events):
        place = (event["endpoint_id"], event["metric"])
        start, stop = (datetime.fromisoformat(event[name]) for name in ("start_time", "stop_time"))
        if stop <= start or start < ends.get(place, start):
            wrong.append(f"{place}: {start} to {stop}, after {ends.get(place)}")
        ends[place] = stop
    return wrong
