"""Which unreadable VMs a worker reports, and how often."""

from __future__ import annotations

from app.errors import PeerRefused
from app.ports.platform import Cursor, InventoryChange
from app.ports.store import BucketName, FencingToken
from app.ports.vm import VmKey
from app.services.inventory import Inventory
from app.services.unreadable_vms import MAX_SHOWN, UnreadableVms
from tests.fakes.platform import FakePlatform

OURS, OTHERS = BucketName("ours"), BucketName("others")


class Reports:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []
        self.is_refusing = False

    def warn(self, key: VmKey, problem: str, *, timeout_s: float) -> None:
        if self.is_refusing:
            raise PeerRefused("API server", "the right create on events is needed", code=403)
        self.told.append((key, problem))


class World:
    def __init__(self) -> None:
        self.inventory = Inventory(FakePlatform(), lambda vm: None, lambda key: None, lambda: None, 0.5)
        self.reports = Reports()
        self.part = UnreadableVms(
            self.inventory, lambda key: OURS if key.startswith("n/a") else OTHERS, self.reports
        )
        self.part.acquired(OURS, FencingToken(1))

    def see(self, **problems: str) -> None:
        """The whole list holds these unreadable ones."""
        found = tuple((f"n/{name}", what) for name, what in problems.items())
        self.inventory.take(InventoryChange(Cursor("c"), True, (), (), found))


def test_only_the_owner_of_its_bucket_reports_a_vm() -> None:
    world = World()
    world.see(a=".spec: is missing", b=".spec: is missing")
    assert world.part.report()
    assert world.reports.told == [("n/a", ".spec: is missing")]
    assert world.part.shown() == {"n/a": ".spec: is missing"}
    world.part.acquired(OTHERS, FencingToken(1))
    world.part.lost(OURS)
    world.part.report()
    assert world.reports.told[1:] == [("n/b", ".spec: is missing")]


def test_a_vm_is_reported_once_and_again_when_something_else_is_wrong_with_it() -> None:
    world = World()
    for what in ("x", "x", "y", "y"):
        world.see(a=what)
        world.part.report()
    world.see()
    world.part.report()
    world.see(a="y")
    world.part.report()
    assert world.reports.told == [("n/a", "x"), ("n/a", "y"), ("n/a", "y")]


def test_a_report_that_fails_is_a_problem_until_it_succeeds() -> None:
    world = World()
    world.reports.is_refusing = True
    world.see(a="x")
    assert not world.part.report()
    (problem,) = world.part.problems()
    assert "create on events" in problem
    world.reports.is_refusing = False
    assert world.part.report()
    assert world.part.problems() == []
    assert world.reports.told == [("n/a", "x")]


def test_what_the_registry_is_told_is_bounded_and_printable() -> None:
    world = World()
    world.see(**{f"a{index:04}": "\x1b[2J" * 1000 for index in range(MAX_SHOWN + 5)})
    shown = world.part.shown()
    assert len(shown) == MAX_SHOWN
    assert all(what.isprintable() and len(what) <= 300 for what in shown.values())
    assert world.part.counters() == {"unreadable_vms": MAX_SHOWN + 5}


def test_without_a_place_for_reports_nothing_runs() -> None:
    world = World()
    assert UnreadableVms(world.inventory, lambda key: OURS, None).jobs() == {}
