"""What must hold through a long run of a fleet on real VMs: nothing stuck, nothing killed, nothing grown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median

from app.cli.demo_vm_script import OVER, GuestFacts
from app.services.fleet_view import FleetView
from app.services.process_keeping import ChildState
from tests.chaos.rules_growth import ALLOWED

STUCK_AFTER_S = 90.0
"""No longer may an operation be in flight, a status not ok, a sample old, a guest silent."""
SETTLING_S = 90.0
"""After the start, which is not judged for growth: processes warm up."""
SHARE = 0.25
"""The first and the last part of the run that are compared."""
SHORTEST_RUN_S = 600.0
"""A shorter run says nothing of growth."""


@dataclass(slots=True)
class Checks:
    """Takes what is seen once a second; `problems` is empty after a good run.

    Attributes:
        problems: each told once.
        loads: that have ended by themselves.
    """

    problems: list[str] = field(default_factory=list)
    loads: int = 0
    _since: dict[str, float] = field(default_factory=dict)
    _gauges: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))

    def take_fleet(self, now_s: float, view: FleetView | None, names: Iterable[str]) -> None:
        """The fleet as Redis tells it."""
        rows = {} if view is None else {row.key.rpartition("/")[2]: row for row in view.vms}
        for name in names:
            row = rows.get(name)
            self._lasting(now_s, f"{name} is not in the fleet", is_so=row is None)
            if row is None:
                continue
            age_ms = row.sample_age_ms
            self._lasting(now_s, f"{name} gives no sample", is_so=age_ms is None or age_ms > 10_000)
            self._lasting(now_s, f"{name} is in trouble", is_so=row.status != "ok")
            self._lasting(now_s, f"{name} is being resized", is_so=row.operation is not None)

    def take_children(self, children: Iterable[ChildState]) -> None:
        """The processes: none may end."""
        for child in children:
            if child.restarts or not child.is_running:
                self._say(f"{child.name} has ended: {child.last_end}")

    def take_guests(self, now_s: float, facts: Mapping[str, GuestFacts], names: Iterable[str]) -> None:
        """What guests have said last; a silent one is missing."""
        for name in names:
            each = facts.get(name)
            self._lasting(now_s, f"the guest of {name} is silent", is_so=each is None)
            if each is not None and each.load_ended not in (None, OVER):
                self._say(f"the load of {name} {each.load_ended}")

    def take_gauge(self, now_s: float, who: str, what: str, value: float) -> None:
        """A number that must not grow; `what` as in `tests.chaos.rules_growth.ALLOWED`."""
        self._gauges[f"{what} of {who}"].append((now_s, value))

    def judge_growth(self, begin_s: float, end_s: float) -> dict[str, str]:
        """Compare each gauge's first part with its last; figures for the report."""
        whole = end_s - begin_s
        if whole < SHORTEST_RUN_S:
            return {"growth": f"not judged below {SHORTEST_RUN_S:g} s"}
        figures = {}
        for name, values in sorted(self._gauges.items()):
            early = begin_s + SETTLING_S
            first = [value for at, value in values if early <= at <= early + whole * SHARE]
            last = [value for at, value in values if at >= end_s - whole * SHARE]
            if not first or not last:
                self._say(f"{name} was not measured both early and late")
                continue
            factor, amount = ALLOWED[name.partition(" ")[0]]
            before, after = max(first), median(last)
            unit = 2**20 if name.startswith("rss") else 1
            figures[name] = f"{before / unit:.0f} → {after / unit:.0f}" + (" MiB" if unit > 1 else "")
            if after > before * factor and after > before + amount:
                self._say(f"{name} has grown: {figures[name]}")
        return figures

    def _lasting(self, now_s: float, what: str, *, is_so: bool) -> None:
        """Tell it once it has been so for too long."""
        if not is_so:
            self._since.pop(what, None)
            return
        if now_s - self._since.setdefault(what, now_s) > STUCK_AFTER_S:
            self._say(f"{what}, for more than {STUCK_AFTER_S:g} s, at {now_s:.0f} s")
            self._since[what] = float("inf")

    def _say(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)
