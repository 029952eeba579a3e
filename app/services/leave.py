"""Leave of a VM's informant: only its current agent may begin an effect (`spec/informant.md`).

An effect is one request to a peer about the VM's size: for a permit, to the platform, to the monitor. Where
nobody need be asked (registration is off, or the VM has no informant) everything is allowed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from app.errors import OwnershipLost
from app.ports.runtime import Monotonic

if TYPE_CHECKING:
    from app.services.runner import Runner


class Leave(Protocol):
    """Who is asked before each effect on one VM."""

    @property
    def bar(self) -> str | None:
        """Why no effect may begin; None: one may."""
        ...

    @property
    def since(self) -> Monotonic:
        """When `bar` changed last."""
        ...

    @property
    def needs_peers(self) -> bool:
        """Whether connections to the VM are to be kept: an effect may begin, or is in flight."""
        ...

    def begin_effect(self) -> bool:
        """Take leave; `end_effect` must follow on every path where it is True."""
        ...

    def end_effect(self) -> None:
        """The effect is over."""
        ...


def bar_of(runner: Runner) -> str | None:
    """Why no effect may begin on the VM, as far as its informant is concerned."""
    return None if runner.informant is None else runner.informant.bar


def allowed_since(runner: Runner) -> float:
    """Since when the VM has been ours to look after, as far as its informant is concerned; 0: all along."""
    return 0.0 if runner.informant is None else runner.informant.since


@contextmanager
def effect(runner: Runner) -> Iterator[None]:
    """One effect, from before it is written down to after its answer.

    Raises:
        OwnershipLost: it may not begin.
    """
    leave = runner.informant
    if leave is not None and not leave.begin_effect():
        raise OwnershipLost(runner.bucket, f"{runner.key}: {leave.bar}")
    try:
        yield
    finally:
        if leave is not None:
            leave.end_effect()
