"""An operator drains a worker of a running fleet, and lets it work again."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.system.test_scaling_survives import Demo, demo  # noqa: F401 - the fixture


def holders(running: Demo) -> Counter[str]:
    text = running.ask("leases", "--json")
    leases = json.loads(text)["leases"] if text else []
    return Counter(str(lease["holder"]).partition("_")[0] for lease in leases)


@pytest.mark.timeout(300)
def test_a_drained_worker_hands_everything_over_and_takes_it_back_when_undone(demo: Demo) -> None:  # noqa: F811
    demo.wait_until(lambda: demo.resizes() > 0, "the fleet is at work")
    demo.wait_until(lambda: holders(demo) == {"worker1": 8, "worker2": 8}, "both workers hold their share")
    assert "worker1 holds nothing any more" in demo.ask("drain", "worker1", "--wait")
    demo.wait_until(lambda: holders(demo) == {"worker2": 16}, "worker2 holds all")
    assert "worker1 (draining)" in demo.ask("status")
    assert "takes buckets again" in demo.ask("drain", "worker1", "--undo")
    demo.wait_until(lambda: holders(demo) == {"worker1": 8, "worker2": 8}, "both share again")
    agents = json.loads(demo.ask("agents", "--json"))["agents"]
    assert {agent["kind"] for agent in agents} >= {"worker", "beat", "scheduler"}
    assert [agent["number"] for agent in agents] == sorted(agent["number"] for agent in agents)
