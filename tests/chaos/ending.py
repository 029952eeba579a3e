"""After the faults: is the fleet whole again, as an operator would find it?"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping

from tests.chaos.evidence import Violation
from tests.chaos.setup import Place

NOT_WHOLE = "the fleet is not whole again"

ENDED = "a worker ended by itself"

WATCHDOG_END = "exit status 75"
"""A worker that its watchdog ends does what it should; how often is in the table."""

WITHIN_S = 60.0
"""After the quiet time, for the last problem to go."""


def judge_ends(ends: Mapping[str, list[str]]) -> list[Violation]:
    """Workers end when they are told to, or by their watchdog; `ends` are the others, by worker."""
    return [
        Violation(ENDED, f"{name}: {end}")
        for name, found in ends.items()
        for end in found
        if end != WATCHDOG_END
    ]


def await_whole(
    place: Place, held: Callable[[], Mapping[str, str]], tick: Callable[[], None]
) -> list[Violation]:
    """Wait until nothing needs a look and all workers have their share; what is wrong at last."""
    deadline = time.monotonic() + WITHIN_S
    while True:
        problems = [*_problems_of_status(place, tick), *_problems_of_shares(place, held())]
        if not problems or time.monotonic() > deadline:
            return [Violation(NOT_WHOLE, text) for text in problems]
        pause = time.monotonic() + 2
        while time.monotonic() < pause:
            tick()
            time.sleep(0.05)


def _problems_of_status(place: Place, tick: Callable[[], None]) -> list[str]:
    """What `vmscaler status` says needs a look."""
    command = [sys.executable, "-m", "app.main", "status", "--json"]
    asked = subprocess.Popen(
        command,
        env=place.environment(place.config),
        cwd=place.directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        answer, complaint = asked.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        asked.kill()
        asked.communicate()
        return ["vmscaler status gave no answer within 60 s"]
    finally:
        tick()
    if asked.returncode == 0:
        return []
    if not answer:
        return [f"vmscaler status: exit status {asked.returncode}: {complaint.strip()[:300]}"]
    return [f"vmscaler status: {problem['text']}" for problem in json.loads(answer)["problems"]]


def _problems_of_shares(place: Place, held: Mapping[str, str]) -> list[str]:
    """Every bucket has a holder; nobody has more than a fair share."""
    options = place.options
    free = [bucket for bucket, holder in held.items() if not holder]
    problems = [f"{len(free)} buckets have no holder: {', '.join(sorted(free)[:3])}"] if free else []
    share = -(-options.buckets // options.workers)
    counts = Counter(holder for holder in held.values() if holder)
    problems += [
        f"{holder} holds {count} buckets, {share} is fair"
        for holder, count in counts.items()
        if count > share
    ]
    if len(counts) != options.workers:
        problems.append(f"{len(counts)} workers hold buckets, {options.workers} run")
    return problems
