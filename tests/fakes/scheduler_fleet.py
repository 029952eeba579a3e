"""A platform that is a list, a clock that stands, and a node scheduler over both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from app.core.model import Millis, Mode
from app.core.permits import Amount
from app.core.resources import Resources, resources
from app.errors import PeerError, PeerUnreachable
from app.ports.platform import Cursor, InventoryChange
from app.ports.runtime import Monotonic
from app.ports.store import FencingToken
from app.ports.vm import VirtualMachine, VmKey
from app.services.node_scheduler import NodeScheduler

GIB = 1 << 30


class StandingClock:
    """Time that moves when a test says so."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def wall_ms(self) -> Millis:
        return Millis(self.now_ms)

    def monotonic(self) -> Monotonic:
        return Monotonic(self.now_ms / 1000)


class Turns:
    """A stop signal that is set after a number of looks."""

    def __init__(self, turns: int) -> None:
        self._left = turns
        self.waits: list[float | None] = []

    def set(self) -> None:
        self._left = 0

    def clear(self) -> None:
        raise AssertionError("a stop is final")

    def is_set(self) -> bool:
        self._left -= 1
        return self._left < 0

    def wait(self, timeout_s: float | None = None) -> bool:
        self.waits.append(timeout_s)
        return False


class ScriptedPlatform:
    """Answers `changes` from a script, whole lists first of all; changes no size."""

    def __init__(self, answers: Iterable[InventoryChange | PeerError]) -> None:
        self._answers = list(answers)
        self.cursors: list[Cursor | None] = []

    def changes(self, cursor: Cursor | None, *, wait_s: float) -> InventoryChange:
        self.cursors.append(cursor)
        answer = self._answers.pop(0) if self._answers else PeerUnreachable("platform", "end of script")
        if isinstance(answer, PeerError):
            raise answer
        return answer

    def read_size(self, vm: VirtualMachine, *, timeout_s: float) -> Resources:
        raise AssertionError("the scheduler does not read sizes")

    def apply_size(
        self, vm: VirtualMachine, target: Resources, *, token: FencingToken, timeout_s: float
    ) -> None:
        raise AssertionError("the scheduler does not change sizes")

    def close(self) -> None:
        return None


def machine(
    name: str,
    *,
    node: str = "n1",
    use: Resources | None = None,
    observed: Resources | None = None,
    most: Resources | None = None,
    slot_bytes: int = GIB,
    mode: Mode = Mode.SCALE,
    migrating: bool = False,
) -> VirtualMachine:
    """A VM `ns/<name>` of 1 CPU and 1 slot that may have 4 of each."""
    return VirtualMachine(
        namespace="ns",
        name=name,
        uid=f"uid-{name}",
        node=node,
        min=resources(250, 1),
        max=most or resources(4000, 4),
        use=use or resources(1000, 1),
        observed=observed,
        slot_bytes=slot_bytes,
        mode=mode,
        migrating=migrating,
    )


def whole(*vms: VirtualMachine) -> InventoryChange:
    """The whole fleet."""
    return InventoryChange(Cursor("1"), is_full=True, updated=vms)


def changed(*vms: VirtualMachine, removed: Sequence[str] = ()) -> InventoryChange:
    """What has changed of it."""
    gone = tuple(VmKey(key) for key in removed)
    return InventoryChange(Cursor("2"), is_full=False, updated=vms, removed=gone)


def node_scheduler(*answers: InventoryChange | PeerError, cpu: int = 10_000, gib: int = 10) -> NodeScheduler:
    """A scheduler for the node `n1` that has taken all the platform's answers in."""
    scheduler = NodeScheduler(ScriptedPlatform(answers), StandingClock(), {"n1": Amount(cpu, gib * GIB)})
    scheduler.run(Turns(len(answers)))
    return scheduler
