"""When an operator should look at a VM: it stays at its maximum, stays denied, flaps, could not be resized.

Each condition must have held for a while before a notice begins, and ends with the first look that finds it
over. What is known of a VM begins with its runner: another owner waits anew.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from app.core.resources import Resources
from app.services.runner import Runner

RESIZES = frozenset({"upscale", "downscale"})


@dataclass(frozen=True, slots=True)
class NoticeRules:
    """How long a condition holds before it is worth a word.

    Attributes:
        denied_lasts_s: a monitor that has denied is asked again, and may deny again, within this time.
        flap_changes: changes of direction within `flap_s`.
    """

    at_maximum_s: float
    denied_s: float
    denied_lasts_s: float
    failed_s: float
    flap_changes: int
    flap_s: float


@dataclass(frozen=True, slots=True)
class Change:
    """A notice begins (`has_begun`) or ends."""

    kind: str
    has_begun: bool
    why: str


class VmNotices:
    """The conditions of one VM."""

    def __init__(self, rules: NoticeRules) -> None:
        self._rules = rules
        self._since: dict[str, float] = {}
        self._standing: set[str] = set()
        self._permit = ""
        self._denials: int | None = None
        self._denied_at = float("-inf")
        self._direction = ""
        self._turns: deque[float] = deque(maxlen=rules.flap_changes)

    def heard(self, kind: str, why: str, now: float) -> None:
        """An entry of the audit trail; `now` is monotonic."""
        if kind == "permit_refused":
            self._permit = why
        elif kind in RESIZES:
            self._permit, self._denied_at = "", float("-inf")
            if self._direction and kind != self._direction:
                self._turns.append(now)
            self._direction = kind

    def look(self, runner: Runner, now: float) -> list[Change]:
        """What has begun or ended since the last look."""
        rules = self._rules
        actual = runner.state.vm.use
        desired = runner.decided.desired or actual
        failing = runner.failing is not None and runner.failing.times > 0
        # Words are made for what is told only: there may be thousands of VMs, and nothing to tell.
        found = (
            self._judge("at_maximum", _is_at_maximum(runner, desired, actual), rules.at_maximum_s, now),
            self._judge("stays_denied", self._is_refused(runner, desired, actual, now), rules.denied_s, now),
            self._judge("not_resized", failing, rules.failed_s, now),
            self._judge("flaps", self._is_flapping(now), 0.0, now),
        )
        if not any(found):
            return []
        return [
            Change(kind, begun, self._why(kind, runner) if begun else "")
            for kind, begun in filter(None, found)
        ]

    def _is_refused(self, runner: Runner, desired: Resources, actual: Resources, now: float) -> bool:
        """By the monitor: it is asked again and again. By the scheduler: until the permit comes."""
        denials = runner.counters.denied
        if self._denials is not None and denials > self._denials:
            self._denied_at = now
        self._denials = denials
        if not runner.problem or not desired.has_field_above(actual):
            self._permit = ""
        return bool(self._permit) or now - self._denied_at <= self._rules.denied_lasts_s

    def _is_flapping(self, now: float) -> bool:
        while self._turns and now - self._turns[0] > self._rules.flap_s:
            self._turns.popleft()
        return len(self._turns) >= self._rules.flap_changes

    def _judge(self, kind: str, holds: bool, wait_s: float, now: float) -> tuple[str, bool] | None:
        """The kind and whether it begins; None: nothing has changed."""
        if not holds:
            self._since.pop(kind, None)
            if kind in self._standing:
                self._standing.discard(kind)
                return kind, False
            return None
        since = self._since.setdefault(kind, now)
        if kind in self._standing or now - since < wait_s:
            return None
        self._standing.add(kind)
        return kind, True

    def _why(self, kind: str, runner: Runner) -> str:
        rules = self._rules
        match kind:
            case "at_maximum":
                return f"the load asks for its maximum or more for {rules.at_maximum_s:g} s"
            case "stays_denied":
                reason = self._permit or "the monitor denies the downscale"
                return f"refused for {rules.denied_s:g} s: {reason}"
            case "flaps":
                return f"{len(self._turns)} changes of direction within {rules.flap_s:g} s"
        failing = runner.failing
        return "" if failing is None else f"tries that failed: {failing.times}; the last: {failing.why}"


def _is_at_maximum(runner: Runner, desired: Resources, actual: Resources) -> bool:
    """In a field that could be smaller: the VM has its maximum, and its load asks for no less."""
    low, high = runner.vm.min, runner.vm.max
    return any(
        lower < upper and wanted >= upper and has >= upper
        for lower, upper, wanted, has in (
            (low.cpu, high.cpu, desired.cpu, actual.cpu),
            (low.mem, high.mem, desired.mem, actual.mem),
        )
    )
