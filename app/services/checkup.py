"""Checks that are made side by side, within a time; what one of them finds, or breaks, is its own affair."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from app.errors import VmscalerError
from app.ports.runtime import Clock, Concurrency

CHECK_LIMIT_S = 10.0
"""For one check; all are begun at once, so this bounds the whole."""


class Verdict(StrEnum):
    """How grave a finding is."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line for an operator.

    Attributes:
        about: what was looked at, a word or two.
        text: what was found.
        next_step: what to do about it; "" where there is nothing to do.
    """

    about: str
    verdict: Verdict
    text: str
    next_step: str = ""


def ok(about: str, text: str) -> Finding:
    """As it should be."""
    return Finding(about, Verdict.OK, text)


def warning(about: str, text: str, next_step: str) -> Finding:
    """Works, but needs a look."""
    return Finding(about, Verdict.WARNING, text, next_step)


def problem(about: str, text: str, next_step: str) -> Finding:
    """Does not work."""
    return Finding(about, Verdict.PROBLEM, text, next_step)


@dataclass(frozen=True, slots=True)
class Check:
    """Looks at one thing.

    Attributes:
        look: gives findings one by one; may raise VmscalerError, which is a problem.
        next_step: what to do where it raises or does not end.
    """

    about: str
    look: Callable[[], Iterable[Finding]]
    next_step: str


def run_checks(
    checks: Sequence[Check], clock: Clock, concurrency: Concurrency, *, limit_s: float = CHECK_LIMIT_S
) -> list[Finding]:
    """All findings, in the order of the checks; returns within `limit_s`, whatever hangs.

    Args:
        concurrency: its jobs must be such that those which hang don't hold the process up at its end.
    """
    deadline = clock.monotonic() + limit_s
    running = [_Running(check, concurrency) for check in checks]
    return [finding for each in running for finding in each.findings(deadline - clock.monotonic(), limit_s)]


class _Running:
    def __init__(self, check: Check, concurrency: Concurrency) -> None:
        self._check = check
        self._found: list[Finding] = []
        self._done = concurrency.signal()
        concurrency.spawn(f"check {check.about}", self._run)

    def findings(self, wait_s: float, limit_s: float) -> list[Finding]:
        if self._done.wait(max(wait_s, 0.0)):
            return self._found
        late = problem(self._check.about, f"no answer within {limit_s:g} s", self._check.next_step)
        return [*self._found, late]

    def _run(self) -> None:
        about = self._check.about
        try:
            for finding in self._check.look():
                self._found.append(finding)
        except VmscalerError as err:
            self._found.append(problem(about, str(err), self._check.next_step))
        except Exception as err:  # noqa: BLE001 a bug in one check must not cost the others
            text = f"this check failed itself: {type(err).__name__}: {err}"
            self._found.append(problem(about, text, "tell the developers: this is a bug"))
        finally:
            self._done.set()
