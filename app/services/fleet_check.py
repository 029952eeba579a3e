"""What the fleet's own processes say, in a line or two: `vmscaler status` has the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from app.protocols.printable import printable
from app.services.checkup import Check, Finding, ok, warning
from app.services.fleet_view import FleetView
from app.services.wording import count_text

MAX_SHOWN = 3
"""Problems told here."""


def fleet_check(read: Callable[[], FleetView]) -> Check:
    """Which processes live, and what needs a look; warnings only, since it may not have been started yet."""
    return Check("fleet", lambda: _look(read()), "look at Redis first")


def _look(view: FleetView) -> Iterator[Finding]:
    kinds = Counter(agent.kind for agent in view.agents)
    if kinds:
        yield ok("fleet", ", ".join(count_text(count, kind) for kind, count in sorted(kinds.items())))
    for each in view.problems[:MAX_SHOWN]:
        yield warning("fleet", printable(each.text, 300), "see `vmscaler status` and docs/runbook.md")
    if len(view.problems) > MAX_SHOWN:
        rest = count_text(len(view.problems) - MAX_SHOWN, "more problem")
        yield warning("fleet", rest, "see `vmscaler status`")
