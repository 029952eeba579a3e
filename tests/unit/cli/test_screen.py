from __future__ import annotations

import pytest
from rich.cells import cell_len
from rich.console import Console

from app.cli.screen import draw
from app.cli.screen_rows import choose_rows, describe
from app.core.model import Mode
from app.core.resources import resources
from app.services.fleet_view import VmRow
from app.services.vm_record import Operation, Pause
from tests.fakes.demo_views import NOW, child, demo_facts, fleet_view, last_step, vm_row


def lines_of(facts: object, width: int = 160, height: int = 40) -> list[str]:
    return draw(facts, width, height).plain.split("\n")  # type: ignore[arg-type]


def many(count: int) -> list[VmRow]:
    return [vm_row(f"sim/web-{number:03}") for number in range(1, count + 1)]


def resizing(row: VmRow, state: str = "resizing") -> VmRow:
    sizes = {"from": {"cpu_m": 1000, "mem": 4}, "to": {"cpu_m": 2000, "mem": 8}}
    operation = Operation.model_validate(
        {"kind": "upscale", "since_ms": NOW - 3_000, "state": state, **sizes}
    )
    return vm_row(row.key, operation=operation, use=resources(2000, 8), desired=resources(2000, 8))


@pytest.mark.parametrize(
    ("width", "height"), [(80, 24), (200, 50), (40, 10), (20, 3), (1, 1), (117, 24), (118, 24)]
)
@pytest.mark.parametrize("count", [0, 1, 24, 200])
def test_the_screen_never_outgrows_the_terminal(width: int, height: int, count: int) -> None:
    lines = lines_of(demo_facts(fleet_view(many(count), ["x" * 300])), width, height)
    assert len(lines) <= height
    assert max(cell_len(line) for line in lines) <= width


def test_wide_characters_do_not_outgrow_the_terminal() -> None:
    view = fleet_view([vm_row("sim/" + "漢" * 60, why="字" * 150)])
    assert max(cell_len(line) for line in lines_of(demo_facts(view), 80, 24)) <= 80


def test_a_row_shows_name_bucket_worker_load_sizes_and_why() -> None:
    row = vm_row(desired=resources(2250, 8), why="load1 2.10 / 0.9 = 2.33 CPUs → 2.25 CPU")
    (shown,) = [line for line in lines_of(demo_facts(fleet_view([row]))) if "web-001" in line]
    cells = " ".join(shown.split())
    assert cells == "sim/web-001 03 worker1 0.90 1.0 → 2.25 4 → 8 load1 2.10 / 0.9 = 2.33 CPUs → 2.25 CPU"


def test_on_a_narrow_terminal_the_reason_stands_under_its_vm() -> None:
    lines = lines_of(demo_facts(fleet_view([vm_row()])), 80, 24)
    at = next(index for index, line in enumerate(lines) if "sim/web-001" in line)
    assert lines[at + 1].strip() == "load1 0.90 / 0.9 = 1.00 CPUs → 1.0 CPU"


def test_a_long_reason_takes_two_lines_on_a_narrow_terminal() -> None:
    reason = (
        "load1 2.70 / 0.9 = 3.00 CPUs → 3.0 CPU; the scheduler was asked for 3 CPU, but the permit is 2.5 CPU"
    )
    lines = lines_of(demo_facts(fleet_view([vm_row(why=reason)])), 80, 24)
    at = next(index for index, line in enumerate(lines) if "sim/web-001" in line)
    assert " ".join(line.strip() for line in lines[at + 1 : at + 3]) == reason


def test_the_observed_size_stands_beside_where_it_differs() -> None:
    texts = describe(resizing(vm_row()), NOW)
    assert texts.cpu == "2.0 → 2.0 (1.0)"
    assert texts.memory == "8 → 8 (4)"
    assert describe(vm_row(), NOW).cpu == "1.0 → 1.0"


def test_a_vm_without_sample_or_decision_says_so() -> None:
    texts = describe(vm_row(metrics=None, desired=None), NOW)
    assert (texts.load, texts.cpu, texts.memory) == ("–", "1.0 → ?", "4 → ?")


def test_what_goes_on_stands_before_the_reason() -> None:
    assert describe(resizing(vm_row()), NOW).why.startswith("resizing for 3 s: load1")
    assert describe(resizing(vm_row(), "not applied"), NOW).why.startswith("not applied for 3 s: ")
    assert describe(vm_row(mode=Mode.OBSERVE), NOW).why.startswith("observed: ")
    assert describe(vm_row(pause=Pause(reason="lunch")), NOW).why.startswith("paused: ")
    assert describe(vm_row(status="stuck"), NOW).why.startswith("stuck: ")
    last = last_step("not_applied", resources(1000, 4), resources(2000, 8))
    assert describe(vm_row(last=last), NOW).why.startswith("not applied 1 s ago: ")


def test_trends_are_told_apart() -> None:
    fresh = last_step("upscale", resources(500, 2), resources(1000, 4))
    old = last_step("upscale", resources(500, 2), resources(1000, 4), ago_ms=60_000)
    assert describe(vm_row(desired=resources(2000, 4)), NOW).trend == "up"
    assert describe(vm_row(desired=resources(500, 4)), NOW).trend == "down"
    assert describe(vm_row(desired=resources(2000, 2)), NOW).trend == "up"
    assert describe(vm_row(last=fresh), NOW).trend == "fresh"
    assert describe(vm_row(last=old), NOW).trend == ""
    assert describe(vm_row(status="stuck"), NOW).trend == "trouble"
    assert describe(vm_row(mode=Mode.OBSERVE, desired=resources(2000, 4)), NOW).trend == ""


def test_all_vms_are_shown_by_name_while_they_fit() -> None:
    rows = [vm_row("sim/b", last=last_step("upscale", resources(1, 1), resources(2, 1))), vm_row("sim/a")]
    assert [row.key for row in choose_rows(rows, 2)] == ["sim/a", "sim/b"]


def test_when_not_all_fit_this_machine_and_the_last_changed_go_first() -> None:
    step = (resources(500, 2), resources(1000, 4))
    rows = [
        *many(50),
        vm_row("sim/early", last=last_step("upscale", *step, ago_ms=9_000)),
        vm_row("sim/late", last=last_step("downscale", *step, ago_ms=1_000)),
        resizing(vm_row("sim/moving")),
        vm_row("sim/stuck", status="stuck"),
        vm_row("this/machine", mode=Mode.OBSERVE),
    ]
    chosen = [row.key for row in choose_rows(rows, 6)]
    assert chosen == ["this/machine", "sim/moving", "sim/stuck", "sim/late", "sim/early", "sim/web-001"]


def test_what_is_hidden_is_counted() -> None:
    lines = lines_of(demo_facts(fleet_view(many(200))), 80, 24)
    shown = sum("sim/web-" in line for line in lines)
    assert shown >= 6
    assert lines[-1] == f"… and {200 - shown} VMs more: vmscaler vm list"


def test_counters_processes_and_addresses_are_on_top() -> None:
    children = (
        child("redis"),
        child("worker1", restarts=2),
        child("beat", pid=None, last_end="exit status 1"),
    )
    view = fleet_view([vm_row(counters={"polls": 7, "denied": 2, "failed": 1})], ["no live beat"])
    lines = lines_of(demo_facts(view, children=children, limit_s=90.0))
    assert lines[0] == "vmscaler demo  34 s of 90 s  3 upscales, 1 downscale done"
    assert lines[1] == "7 polls  2 denied, 1 failed, 0 not applied  CPU 1.0 → 1.0"
    assert lines[2] == "leases 1/1  worker1 1 bucket, 1 VM"
    assert lines[3] == "processes  redis  worker1 ↻2  beat down (exit status 1)"
    assert lines[4] == "Flower http://127.0.0.1:5555   logs /run/demo/logs"
    assert lines[5] == "no live beat"


def test_what_guests_say_stands_above_the_vms() -> None:
    lines = lines_of(
        demo_facts(fleet_view(many(3)), notes=("vm1 says: nproc 3, MemTotal 981 MiB", "\x1b[2J"))
    )
    said = next(number for number, line in enumerate(lines) if "vm1 says: nproc 3" in line)
    assert said < next(number for number, line in enumerate(lines) if "web-001" in line)
    assert "\x1b" not in "".join(lines)
    assert len(lines_of(demo_facts(fleet_view(many(30)), notes=("a", "b")), height=12)) <= 12


def test_processes_that_do_not_fit_go_on_in_the_next_line() -> None:
    children = tuple(
        child(name, pid=None, last_end="killed by SIGKILL") for name in ("redis", "worker1", "beat")
    )
    lines = lines_of(demo_facts(None, children=children), 80, 24)
    assert lines[1] == "processes  redis down (killed by SIGKILL)  worker1 down (killed by SIGKILL)"
    assert lines[2] == "           beat down (killed by SIGKILL)"


def test_without_redis_the_screen_says_what_it_waits_for() -> None:
    lines = lines_of(demo_facts(None, absence="Redis gives no answer: connection refused"))
    assert lines[-1] == "Redis gives no answer: connection refused"
    assert "processes  redis  worker1" in lines


def test_an_empty_fleet_is_no_error() -> None:
    assert lines_of(demo_facts(fleet_view([])))[-1].startswith("no VM has been polled yet")


def test_nothing_that_a_peer_says_acts_on_the_terminal() -> None:
    evil = "\x1b[2J\x1b]0;owned\x07\n[bold red]markup[/] \u202e"
    row = vm_row(evil, worker=evil, bucket=evil, why=evil, status=evil)
    view = fleet_view([row], [evil])
    for width in (80, 200):
        text = draw(demo_facts(view, children=(child("beat", pid=None, last_end=evil),)), width, 24)
        assert all(character.isprintable() or character == "\n" for character in text.plain)
        assert "[bold red]" in text.plain


def test_it_can_be_printed_on_a_real_console() -> None:
    console = Console(width=100, height=30, record=True, force_terminal=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(draw(demo_facts(fleet_view(many(3))), 100, 30))
    assert "sim/web-003" in console.export_text()
