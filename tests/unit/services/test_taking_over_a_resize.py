"""A new owner waits for a resize that the earlier one began: it may still come, and is paid for."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from app.core.model import Millis
from app.core.resources import resources
from app.ports.vm import VmKey
from app.services.tracking import WATCH_LAG_MS, Awaited
from tests.service_builders import BUCKET, a_virtual_machine
from tests.worker_harness import Worker

SMALL, LARGE = resources(1_000, 4), resources(2_000, 8)
AWAITED = Awaited(LARGE, Millis(1_000), Millis(31_000))


@pytest.mark.parametrize(
    ("observed", "asked", "now", "may_change"),
    [
        (SMALL, LARGE, 2_000, True),
        (SMALL, LARGE, 30_999, True),
        (SMALL, LARGE, 31_000, False),
        (LARGE, LARGE, 2_000, False),
        # The platform may not have told of it yet; later it was never asked, or taken back.
        (SMALL, SMALL, 2_000, True),
        (SMALL, SMALL, 1_000 + WATCH_LAG_MS, False),
    ],
)
def test_a_resize_may_come_until_it_is_seen_or_its_time_is_over(
    observed: object, asked: object, now: int, may_change: bool
) -> None:
    assert AWAITED.may_still_change(observed, asked, Millis(now)) is may_change  # type: ignore[arg-type]


def test_nothing_is_asked_for_a_vm_whose_accepted_size_may_still_come() -> None:
    first = Worker()
    first.platform.is_applying = False
    first.sample(2)
    pending = next(iter(first.platform.changes(None, wait_s=0).updated))
    assert pending.observed != pending.use
    second = Worker(pending, states=first.states, is_ready=False)
    second.settle()
    assert not second.runner.is_ready
    assert second.log == []
    second.platform.put(replace(pending, observed=pending.use))
    second.until(lambda: second.runner.is_ready)
    second.settle()
    assert second.runner.state.vm.use == pending.use
    assert second.log[0] == f"permit {pending.use.cpu}/{pending.use.mem}"


def test_a_resize_that_was_given_up_or_is_long_ago_is_not_waited_for() -> None:
    first = Worker()
    first.platform.is_applying = False
    first.sample(2)
    pending = next(iter(first.platform.changes(None, wait_s=0).updated))
    key = VmKey("default/db")
    record = json.loads(first.states.load(BUCKET)[key])
    assert record["operation"]["state"] == "resizing"
    for change in ({"state": "not applied"}, {"since_ms": record["operation"]["since_ms"] - 31_000}):
        changed = record | {"operation": record["operation"] | change}
        first.states.replace_records({BUCKET: {key: json.dumps(changed).encode()}})
        second = Worker(pending, states=first.states)
        assert second.runner.is_ready
        assert second.runner.state.vm.use == a_virtual_machine().use
