"""The soak's checks find what they are for."""

from __future__ import annotations

from app.cli.demo_vm_script import MIB, GuestFacts
from tests.fakes.demo_views import child, fleet_view, vm_row
from tests.vm.soak_checks import SHORTEST_RUN_S, STUCK_AFTER_S, Checks

CALM = GuestFacts(1, 469 * MIB, 400 * MIB, is_loaded=False, load_ended=None)


def test_what_passes_is_no_problem() -> None:
    checks = Checks()
    for second in range(0, int(STUCK_AFTER_S) * 3, 10):
        is_odd = (second // 10) % 2 == 1
        row = vm_row("local/a", status="stuck" if is_odd else "ok", sample_age_ms=60_000 if is_odd else 1)
        checks.take_fleet(second, fleet_view([row]), ["a"])
        checks.take_guests(second, {} if is_odd else {"a": CALM}, ["a"])
    checks.take_children([child("beat")])
    assert checks.problems == []


def test_what_lasts_is_told_once() -> None:
    checks = Checks()
    for second in range(0, int(STUCK_AFTER_S) * 3, 10):
        checks.take_fleet(second, fleet_view([vm_row("local/a", status="stuck")]), ["a", "b"])
        checks.take_guests(second, {"a": CALM}, ["a", "b"])
    assert [problem.partition(",")[0] for problem in checks.problems] == [
        "a is in trouble",
        "b is not in the fleet",
        "the guest of b is silent",
    ]


def test_a_load_or_a_process_that_was_killed_is_told() -> None:
    checks = Checks()
    killed = GuestFacts(1, 1, 1, is_loaded=False, load_ended="ended by signal 9")
    for _ in range(2):
        checks.take_guests(1.0, {"a": killed}, ["a"])
        checks.take_children([child("beat", restarts=1, last_end="killed by SIGKILL")])
    assert checks.problems == ["the load of a ended by signal 9", "beat has ended: killed by SIGKILL"]


def test_what_grows_is_told_with_its_figures() -> None:
    checks = Checks()
    end = SHORTEST_RUN_S * 2
    for second in range(0, int(end), 10):
        checks.take_gauge(second, "worker1", "files", 20 + second / 10)
        checks.take_gauge(second, "beat", "files", 20)
    figures = checks.judge_growth(0, end)
    assert figures["files of beat"] == "20 → 20"
    assert [problem.partition(":")[0] for problem in checks.problems] == ["files of worker1 has grown"]


def test_a_short_run_says_nothing_of_growth() -> None:
    assert "not judged" in Checks().judge_growth(0, SHORTEST_RUN_S - 1)["growth"]
