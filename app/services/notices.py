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


@dataclass(frozen=True, slots=True)
class _Condition:
    """Whether it holds, how long it must before it is told, and in which words."""

    holds: bool
    wait_s: float
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
        actual = runner.state.vm.use
        desired = runner.decided.desired or actual
        conditions = {
            "at_maximum": self._maximum(runner, desired, actual),
            "stays_denied": self._refused(runner, desired, actual, now),
            "not_resized": self._failing(runner),
            "flaps": self._flapping(now),
        }
        found = (self._judge(kind, condition, now) for kind, condition in conditions.items())
        return [change for change in found if change is not None]

    def _maximum(self, runner: Runner, desired: Resources, actual: Resources) -> _Condition:
        wait_s = self._rules.at_maximum_s
        why = f"the load asks for its maximum or more for {wait_s:g} s"
        return _Condition(_is_at_maximum(runner, desired, actual), wait_s, why)

    def _refused(self, runner: Runner, desired: Resources, actual: Resources, now: float) -> _Condition:
        """By the monitor: it is asked again and again. By the scheduler: until the permit comes."""
        denials = runner.counters.denied
        if self._denials is not None and denials > self._denials:
            self._denied_at = now
        self._denials = denials
        if not desired.has_field_above(actual) or not runner.problem:
            self._permit = ""
        is_denied = now - self._denied_at <= self._rules.denied_lasts_s
        reason = self._permit or "the monitor denies the downscale"
        why = f"refused for {self._rules.denied_s:g} s: {reason}"
        return _Condition(is_denied or bool(self._permit), self._rules.denied_s, why)

    def _failing(self, runner: Runner) -> _Condition:
        failing = runner.failing
        if failing is None:
            return _Condition(holds=False, wait_s=0.0, why="")
        why = f"tries that failed: {failing.times}; the last: {failing.why}"
        return _Condition(failing.times > 0, self._rules.failed_s, why)

    def _flapping(self, now: float) -> _Condition:
        while self._turns and now - self._turns[0] > self._rules.flap_s:
            self._turns.popleft()
        turns = len(self._turns)
        why = f"{turns} changes of direction within {self._rules.flap_s:g} s"
        return _Condition(turns >= self._rules.flap_changes, 0.0, why)

    def _judge(self, kind: str, condition: _Condition, now: float) -> Change | None:
        if not condition.holds:
            self._since.pop(kind, None)
            if kind in self._standing:
                self._standing.discard(kind)
                return Change(kind, has_begun=False, why="")
            return None
        since = self._since.setdefault(kind, now)
        if kind in self._standing or now - since < condition.wait_s:
            return None
        self._standing.add(kind)
        return Change(kind, has_begun=True, why=condition.why)


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
