"""A worker's services with a vm-monitor over a real websocket: denials, an error, a flood of requests."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from app.adapters.bounded_websocket import MAX_BYTES_PER_SECOND
from tests.monitor_scenarios import COOLDOWN_S, RETRY_S


def facts_of(scenario: str) -> dict[str, Any]:
    """Run it where the standard library is cooperative."""
    start = "import gevent.monkey as g; g.patch_all(); from tests.monitor_scenarios import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", start, scenario], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_hundred_denials_in_a_row_are_no_failures_and_the_cooldown_holds() -> None:
    found = facts_of("denials")
    assert found["denied"] >= 100
    assert (found["failed"], found["status"], found["crashes"]) == (0, "ok", 0)
    assert found["use"] == [1_000, 4]
    asked = found["asked"]
    for index, (at, cpu, mem) in enumerate(asked):
        for earlier, denied_cpu, denied_mem in asked[:index]:
            if cpu <= denied_cpu and mem <= denied_mem and earlier < asked[99][0]:
                # The core counts whole milliseconds.
                assert at - earlier >= COOLDOWN_S - 0.001
    assert found["in_the_end"] == [500, 2]


def test_a_downscale_that_fails_once_is_tried_again_after_its_pause() -> None:
    found = facts_of("error")
    (first, *target), (second, *again) = found["asked"]
    assert target == again == [500, 2]
    assert second - first >= RETRY_S - 0.001
    assert (found["failed"], found["denied"], found["status"]) == (1, 0, "ok")
    assert found["use"] == [500, 2]


def test_a_guest_that_asks_a_thousand_times_a_second_at_its_maximum_is_heard_once_a_second() -> None:
    found = facts_of("flood")
    assert found["sent"] > 100
    assert 1 <= found["forwarded"] <= found["elapsed"] + 1
    assert found["lines"] == ["scheduler changed", "bucket taken", "monitor", "guest asks for memory"]
    assert found["trail"].count("upscale_requested") == 1
    assert (found["failed"], found["status"], found["use"]) == (0, "ok", [1_000, 4])
    assert found["permits"] <= 2, "there is nothing to ask the scheduler for"


def test_a_guest_that_sends_what_takes_long_to_read_leaves_others_their_turn_after_each_message() -> None:
    found = facts_of("heavy")
    assert all(turns > 0 for turns in found["turns"]), found["turns"]
    assert found["bytes"] <= MAX_BYTES_PER_SECOND * (found["seconds"] + 2)
