"""How a VM's memory is changed from outside: virtio-mem, pc-dimm slots, or the balloon.

A driver reads what QEMU says the VM has and asks for another amount; asking returns at once, or nearly so.
Whether the guest follows is seen in what is read afterwards. Amounts are bytes, boot memory included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from app.adapters.qmp import QmpRefused, QmpSession
from app.errors import PeerRefused

DIMM_BLOCK_BYTES = 128 * 1024 * 1024
"""Linux takes and gives a DIMM's memory in blocks of this size on x86."""


@dataclass(frozen=True, slots=True)
class MemoryState:
    """What QEMU says.

    Attributes:
        actual: what the VM has now.
        requested: what it was asked to have last.
        block: steps in which it can change.
        least, most: bounds that the VM was started with.
    """

    actual: int
    requested: int
    block: int
    least: int
    most: int


class MemoryDriver(Protocol):
    """One way to change memory."""

    def read(self, session: QmpSession) -> MemoryState:
        """Raises PeerRefused if the VM was not started for this driver, PeerError if unknown."""
        ...

    def request(self, session: QmpSession, state: MemoryState, size: int) -> None:
        """Ask for `size` bytes, which lies within the state's bounds. Raises PeerError."""
        ...


class VirtioMem:
    """A virtio-mem device: any multiple of its block, up and down; the guest plugs and unplugs by itself."""

    def __init__(self, device: str) -> None:
        self._device = device

    def read(self, session: QmpSession) -> MemoryState:
        """See `MemoryDriver`."""
        base = _base(session)
        for kind, data in _devices(session):
            if kind == "virtio-mem" and data.get("id") == self._device:
                size, requested, block, most = (
                    _number(session, data, name)
                    for name in ("size", "requested-size", "block-size", "max-size")
                )
                return MemoryState(base + size, base + requested, max(block, 1), base, base + most)
        raise PeerRefused(session.peer, f"the VM has no virtio-mem device called {self._device}")

    def request(self, session: QmpSession, state: MemoryState, size: int) -> None:
        """See `MemoryDriver`."""
        path = f"/machine/peripheral/{self._device}"
        session.execute("qom-set", path=path, property="requested-size", value=size - state.least)


class DimmSlots:
    """pc-dimm slots of one size: each is plugged and unplugged as a whole, the last one first."""

    def __init__(self, slot_bytes: int) -> None:
        self._slot_bytes = slot_bytes

    def read(self, session: QmpSession) -> MemoryState:
        """See `MemoryDriver`; the bounds are those of QEMU's slots, which it does not tell."""
        base = _base(session)
        dimms = self._dimms(session)
        plugged = sum(dimms.values())
        return MemoryState(base + plugged, base + plugged, self._slot_bytes, base, 1 << 60)

    def request(self, session: QmpSession, state: MemoryState, size: int) -> None:
        """See `MemoryDriver`. A slot that the guest keeps stays, and the next request asks again."""
        dimms = self._dimms(session)
        wanted = (size - state.least) // self._slot_bytes
        for number in sorted(dimms, reverse=True)[: max(len(dimms) - wanted, 0)]:
            session.execute("device_del", id=f"vmscaler-dimm{number}")
        free = (number for number in range(len(dimms) + wanted + 1) if number not in dimms)
        for _ in range(wanted - len(dimms)):
            self._plug(session, next(free))

    def _plug(self, session: QmpSession, number: int) -> None:
        memory = f"vmscaler-mem{number}"
        try:
            session.execute("object-add", qom_type="memory-backend-ram", id=memory, size=self._slot_bytes)
        except QmpRefused:
            # What backed a slot that the guest gave back later stays behind; it has the right size.
            if session.execute("qom-get", path=f"/objects/{memory}", property="size") != self._slot_bytes:
                raise
        session.execute("device_add", driver="pc-dimm", id=f"vmscaler-dimm{number}", memdev=memory)

    def _dimms(self, session: QmpSession) -> dict[int, int]:
        """Size of our slots by number."""
        found = {}
        for kind, data in _devices(session):
            name = str(data.get("id", ""))
            number = name.removeprefix("vmscaler-dimm")
            if kind == "dimm" and number != name and number.isdigit():
                found[int(number)] = _number(session, data, "size")
        return found


class Balloon:
    """A balloon: the VM has all of its memory, and gives back what the balloon takes up."""

    def read(self, session: QmpSession) -> MemoryState:
        """See `MemoryDriver`; QEMU does not tell what the balloon was asked for."""
        most = _base(session)
        found = session.execute("query-balloon")
        actual = _number(session, found if isinstance(found, dict) else {}, "actual")
        return MemoryState(actual, actual, 4096, 0, most)

    def request(self, session: QmpSession, state: MemoryState, size: int) -> None:
        """See `MemoryDriver`."""
        session.execute("balloon", value=size)


def _base(session: QmpSession) -> int:
    found = session.execute("query-memory-size-summary")
    return _number(session, found if isinstance(found, dict) else {}, "base-memory")


def _devices(session: QmpSession) -> list[tuple[str, dict[str, object]]]:
    found = session.execute("query-memory-devices")
    devices = []
    for each in found if isinstance(found, list) else ():
        data = each.get("data") if isinstance(each, dict) else None
        if isinstance(data, dict):
            devices.append((str(each.get("type")), data))
    return devices


def _number(session: QmpSession, data: dict[str, object], name: str) -> int:
    value = data.get(name)
    if type(value) is not int or not 0 <= value < 1 << 60:
        raise PeerRefused(session.peer, f"an answer without {name}")
    return value
