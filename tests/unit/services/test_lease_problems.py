"""Leases that can't be read are told, a few of many; a server of leases that is away hides nothing else."""

from __future__ import annotations

from app.errors import LeasesUnavailable
from app.ports.store import LeaseView
from app.services.lease_problems import MAX_TOLD, LeaseProblems
from tests.fakes.shown_fleet import ShownFleet, inspection
from tests.unit.services.test_fleet_view import add_vm, codes, live_fleet


def test_a_few_of_many_are_told_and_how_many_there_are() -> None:
    part = LeaseProblems(lambda: [f"Lease ns/{number}\n" for number in range(MAX_TOLD + 3)])
    told = part.problems()
    assert told[0] == "Lease ns/0\\n"
    assert told[MAX_TOLD:] == ["… and 3 more leases"]
    assert part.counters() == {"lease_problems": MAX_TOLD + 3}
    assert LeaseProblems(list).problems() == []


class CutOff(ShownFleet):
    """The API server with the leases does not answer."""

    def view(self) -> LeaseView:
        raise LeasesUnavailable("Kubernetes API server https://10.0.0.1", "no connection")


def test_while_nobody_can_say_who_holds_what_the_rest_is_shown() -> None:
    fleet = live_fleet()
    fleet.__class__ = CutOff
    add_vm(fleet, "ns/db")
    view = inspection(fleet).fleet_view()
    assert "leases-unknown" in codes(view)
    assert "free-buckets" not in codes(view)
    assert [row.key for row in view.vms] == ["ns/db"]
    told = next(problem.text for problem in view.problems if problem.code == "leases-unknown")
    assert told == (
        "who holds which bucket can't be read: Kubernetes API server https://10.0.0.1: no connection"
    )
