"""The steps of the demo of real VMs: each counts only when the guest itself says so."""

from __future__ import annotations

from dataclasses import replace

from app.cli.demo_vm_script import MIB, DemoScript, GuestFacts, LoadOrder

CALM = GuestFacts(cpus=1, total=469 * MIB, available=400 * MIB, is_loaded=False, load_ended=None)
LOADED = replace(CALM, is_loaded=True)
OVER = replace(CALM, load_ended="over")


class Story:
    """A script that is told of both guests, a second later each time."""

    def __init__(self) -> None:
        self.script = DemoScript("a", "b")
        self.now = 0.0

    def tell(self, a: GuestFacts, b: GuestFacts = CALM, *, is_ready: bool = True) -> list[LoadOrder]:
        self.now += 1
        return self.script.step(self.now, {"a": a, "b": b}, is_ready=is_ready)


def after_cpu_load() -> Story:
    story = Story()
    story.tell(CALM)
    story.tell(replace(LOADED, cpus=3))
    story.tell(replace(OVER, cpus=3))
    return story


def test_all_that_guests_say_makes_a_complete_run() -> None:
    story = Story()
    assert story.tell(CALM, is_ready=False) == []
    assert story.tell(CALM) == [LoadOrder("a", 4000, 0, 60)]
    assert story.tell(replace(LOADED, cpus=3)) == []
    assert story.tell(replace(OVER, cpus=3)) == [LoadOrder("b", 0, 600_000_000, 70)]
    story.tell(replace(OVER, cpus=3), replace(LOADED, total=981 * MIB, available=90 * MIB))
    assert not story.script.is_complete()
    story.tell(OVER, replace(OVER, total=981 * MIB))
    story.tell(OVER, OVER)
    assert story.script.missing() == ()
    assert story.script.is_complete()
    assert story.script.lines() == (
        "CPUs: 1 -> 3, the first 1 s after the load began",
        "CPUs: back at 1 2 s after its end",
        "MemTotal: 469 -> 981 MiB, first 1 s after the load began",
        "MemTotal: back at 469 MiB 1 s after its end",
        "the hog was never without memory: 90 MiB available at least",
    )


def test_nothing_is_done_before_the_fleet_has_both_vms() -> None:
    script = DemoScript("a", "b")
    assert script.step(1.0, {"a": CALM}, is_ready=True) == []
    assert script.step(2.0, {"a": CALM, "b": CALM}, is_ready=False) == []
    assert "the fleet never had both VMs" in script.missing()


def test_a_silent_guest_is_no_step() -> None:
    story = after_cpu_load()
    assert story.script.step(9.0, {}, is_ready=True) == []
    assert {"cpu down", "memory up"}.isdisjoint(story.script.reached)


def test_cpus_that_stay_up_are_missing() -> None:
    story = after_cpu_load()
    story.tell(replace(OVER, cpus=2))
    assert story.script.missing()[0] == "the CPUs did not go back after the load, says nproc"


def test_cpus_that_go_back_while_the_load_runs_do_not_count() -> None:
    story = Story()
    story.tell(CALM)
    story.tell(replace(LOADED, cpus=3))
    story.tell(LOADED)
    assert "cpu down" not in story.script.reached


def test_a_hog_that_was_killed_fails_the_run_whatever_comes_after() -> None:
    story = after_cpu_load()
    story.tell(OVER, replace(LOADED, total=981 * MIB))
    story.tell(OVER, replace(CALM, total=981 * MIB, load_ended="ended by signal 9"))
    story.tell(OVER, OVER)
    assert story.script.problems == ["the hog ended by signal 9: the guest ran out of memory"]
    assert not story.script.is_complete()


def test_a_little_more_memory_is_no_upscale() -> None:
    story = after_cpu_load()
    story.tell(OVER, replace(LOADED, total=CALM.total + 60 * MIB))
    assert "memory up" not in story.script.reached
