from __future__ import annotations

from app.cli.demo_report import Tally, completed_line, progress_line, summary_lines
from app.core.model import Mode
from app.core.resources import resources
from app.services.fleet_view import VmRow
from tests.fakes.demo_views import child, fleet_view, last_step, vm_row


def scaled(up: int, down: int, **changes: object) -> VmRow:
    return vm_row(counters={"upscales": up, "downscales": down}, **changes)


def machine(polls: int, failures: int = 0) -> VmRow:
    return vm_row("this/machine", mode=Mode.OBSERVE, counters={"polls": polls, "poll_failures": failures})


def test_nothing_is_missing_after_up_down_and_a_look_at_this_machine() -> None:
    tally = Tally()
    tally.take(fleet_view([scaled(1, 1), machine(3)]), 20.0)
    assert tally.missing() == ()


def test_each_thing_that_did_not_happen_is_named() -> None:
    tally = Tally()
    tally.take(fleet_view([scaled(0, 0), machine(0)]), 20.0)
    assert tally.missing() == (
        "no upscale was completed",
        "no downscale was completed",
        "this machine was never polled as an observed VM",
    )


def test_upscales_alone_are_not_enough() -> None:
    tally = Tally()
    tally.take(fleet_view([scaled(5, 0), machine(3)]), 20.0)
    assert tally.missing() == ("no downscale was completed",)


def test_failed_polls_of_this_machine_do_not_count() -> None:
    tally = Tally()
    tally.take(fleet_view([scaled(1, 1), machine(4, failures=4)]), 20.0)
    assert tally.missing() == ("this machine was never polled as an observed VM",)


def test_a_resize_is_reported_once() -> None:
    tally = Tally()
    first = tally.take(fleet_view([scaled(1, 0)]), 5.0)
    again = tally.take(fleet_view([scaled(1, 0)]), 6.0)
    more = tally.take(fleet_view([scaled(3, 1)]), 7.0)
    assert [(done.kind, done.count) for done in first] == [("upscales", 1)]
    assert again == ()
    assert [(done.kind, done.count) for done in more] == [("upscales", 2), ("downscales", 1)]
    assert tally.completed == {"upscales": 3, "downscales": 1}
    assert tally.first_upscale_s == 5.0


def test_a_vm_that_is_deleted_or_made_anew_takes_nothing_away() -> None:
    tally = Tally()
    tally.take(fleet_view([scaled(4, 2)]), 5.0)
    tally.take(fleet_view([]), 6.0)
    tally.take(fleet_view([scaled(1, 0)]), 7.0)
    assert tally.completed == {"upscales": 5, "downscales": 2}


def test_a_completed_resize_is_one_line_with_sizes_and_reason() -> None:
    last = last_step("upscale", resources(1000, 4), resources(2250, 8), why="load1 2.10 / 0.9 = 2.33 CPUs")
    (done,) = Tally().take(fleet_view([scaled(1, 0, last=last)]), 12.34)
    assert completed_line(done, 12.34) == (
        "  12.3s upscale   sim/web-001: 1 CPU, 4 GiB -> 2.25 CPU, 8 GiB: load1 2.10 / 0.9 = 2.33 CPUs"
    )


def test_a_resize_that_something_else_followed_shows_the_size_of_now() -> None:
    last = last_step("denied", resources(1000, 4), resources(500, 2))
    (done,) = Tally().take(fleet_view([scaled(2, 0, last=last, why="held\nback")]), 1.0)
    assert completed_line(done, 1.0) == "   1.0s upscale   sim/web-001 (x2): 1 CPU, 4 GiB: held\\nback"


def test_progress_is_one_line_with_and_without_a_view() -> None:
    tally = Tally()
    view = fleet_view([vm_row(counters={"polls": 9, "denied": 2})])
    assert progress_line(tally, view, "", 5.0) == (
        "   5.0s 0 up, 0 down; 1 VM, 1 worker, 1/1 buckets, 9 polls, 2 denied, 0 failed, 0 not applied"
    )
    assert progress_line(tally, None, "no\tanswer", 5.0) == "   5.0s 0 up, 0 down; no\\tanswer"


def test_the_summary_names_restarts_and_what_was_missing() -> None:
    tally = Tally()
    tally.take(fleet_view([scaled(2, 0), machine(3)]), 8.0)
    children = [child("redis"), child("worker1", restarts=1, last_end="killed by SIGKILL")]
    assert summary_lines(tally, children, 90.0) == (
        "demo: 90 s, 2 VMs",
        "  upscales completed    2 (first: after 8 s)",
        "  downscales completed  0",
        "  this machine          3 samples, observed only",
        "  restarts              worker1 1 (killed by SIGKILL)",
        "  missing: no downscale was completed",
    )
