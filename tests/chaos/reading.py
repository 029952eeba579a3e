"""From the files of a run to what the checker judges."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from app.cluster.ring import BucketSet
from tests.chaos.evidence import Effect, Line, Poll, Size, StatLine, Vm
from tests.chaos.notebook import WALL_BEHIND_S


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """A journal's lines, those of its rotated part first; a last line that was cut short is left out."""
    for part in (path.with_name(path.name + ".1"), path):
        if not part.exists():
            continue
        with part.open("rb") as file:
            for raw in file:
                if raw.endswith(b"\n"):
                    yield json.loads(raw)


def missing_lines(name: str, lines: Iterable[Line], *, of: str | None = None) -> list[str]:
    """Where a journal's numbers leave some out; a process that was started again begins at 1.

    Args:
        of: what tells apart the processes that share the journal.
    """
    gaps = []
    last: dict[str, int] = {}
    for line in lines:
        number, writer = int(line["n"]), "" if of is None else f" of {line[of]}"
        before = last.get(writer, 0)
        if number not in (before + 1, 1):
            gaps.append(f"{name}: lines {before + 1} to {number - 1}{writer} are missing")
        last[writer] = number
    return gaps


def read_vms(listed: Iterable[Mapping[str, Any]], buckets: BucketSet) -> dict[str, Vm]:
    """From the fleet's list, before anybody has asked for a size."""
    vms = {}
    for raw in listed:
        key, slot = f"{raw['namespace']}/{raw['name']}", int(raw["slot_bytes"])
        vms[key] = Vm(key, buckets.owner(key), slot, _in_slots(raw["use"], slot))
    return vms


def read_fleet(lines: Iterable[Line], vms: Mapping[str, Vm]) -> tuple[list[Effect], list[Poll]]:
    """The fleet's journal: sizes asked for, monitors spoken to, pages read."""
    effects: list[Effect] = []
    polls: list[Poll] = []
    for line in lines:
        at, what, vm = float(line["mono"]), str(line["effect"]), vms[line["vm"]]
        holder = str(line.get("holder", ""))
        if what == "polled":
            polls.append(Poll(at, vm.key, holder))
        elif what == "asked":
            size = _in_slots(line["to"], vm.slot_bytes)
            bucket, token, is_applied = str(line["bucket"]), int(line["token"]), line["status"] == 202
            effects.append(
                Effect(at, "platform", what, vm.key, bucket, holder, token, is_applied, size, line)
            )
        elif what.startswith("monitor "):
            size_or_none = _in_bytes(line["to"]) if "to" in line else None
            word = what.removeprefix("monitor ")
            effects.append(
                Effect(at, "monitor", word, vm.key, vm.bucket, holder, None, True, size_or_none, line)
            )
    return effects, polls


def read_scheduler(lines: Iterable[Line]) -> list[Effect]:
    """The scheduler's journal: permits granted and questions refused."""
    effects = []
    for line in lines:
        is_applied = line["effect"] == "granted"
        size = _in_bytes(line["to"]) if is_applied else None
        effects.append(
            Effect(
                float(line["mono"]),
                "scheduler",
                str(line["effect"]) if is_applied else f"asked: {line['reason']}",
                str(line["vm"]),
                str(line["bucket"]),
                str(line["holder"]),
                line["token"],
                is_applied,
                size,
                line,
            )
        )
    return effects


def read_stats(lines: Iterable[Line]) -> list[StatLine]:
    """The workers' journal of stats; their wall times are put on the monotonic clock."""
    return [
        StatLine(
            float(line["time"]) - WALL_BEHIND_S,
            str(line["fate"]),
            f"{line['holder']}/{line['agent_id']}",
            str(line["key"]),
            int(line["timestamp"]),
            line,
        )
        for line in lines
    ]


def _in_slots(size: Mapping[str, Any], slot_bytes: int) -> Size:
    return Size(int(size["cpu_m"]), int(size["mem"]) * slot_bytes)


def _in_bytes(size: Mapping[str, Any]) -> Size:
    return Size(int(size["cpu_m"]), int(size["mem_bytes"]))
