"""One resize of a VM: from what it is to what is asked, CPU and memory each for itself.

It is a reconciliation: it goes by what the VM is now, not by what was asked before, so that doing it again
is harmless, and a VM that has rebooted is brought back. Memory grows before CPUs change, and shrinks after:
a busy guest answers sooner with fewer CPUs where the host has none to spare (0.1 to 0.4 s with one, 1 to 8
with four).

A shrink goes on only while we watch it (`qemu_shrink`). What was not reached is seen in the observed size,
and asked for again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from app.adapters.qemu_cpu import whole_cpus
from app.adapters.qemu_machine import GuestWord, QemuMachine, Sight, is_moving
from app.adapters.qemu_memory import MemoryState
from app.adapters.qemu_note import Note, write_note
from app.adapters.qemu_shrink import Shrink, spare_bytes, whole_slots
from app.adapters.qmp import QmpSession, qmp_session
from app.core.resources import Resources
from app.errors import PeerError, PeerRefused, PeerTimedOut, PeerUnreachable
from app.ports.store import FencingToken
from app.ports.vm import VirtualMachine

logger = logging.getLogger(__name__)

GUEST_LIMIT_S = 3.0
"""For the guest's numbers before a resize; a scrape takes 25 to 100 ms under TCG."""
CPU_LIMIT_S = 15.0
"""For CPUs to go on or off; 0.05 s each, more under load."""
_RESERVE_S = 0.5


class Resize:
    """One call of `apply_size`.

    Args:
        vm: as the caller knows it; its `use` is the basis.
        timeout_s: for all of it.
    """

    def __init__(
        self,
        machine: QemuMachine,
        vm: VirtualMachine,
        target: Resources,
        token: FencingToken,
        timeout_s: float,
    ) -> None:
        self._machine = machine
        self._vm = vm
        self._target = target
        self._token = int(token)
        self._deadline = time.monotonic() + timeout_s
        self._goal = target.mem * machine.slot_bytes
        self._problems: list[PeerError] = []
        self._shrink: Shrink | None = None

    def run(self) -> None:
        """Do it.

        Raises:
            PeerRefused: nothing changed: an older token (409), another basis (412), out of bounds (422), not
                running or migrating (423), or QEMU and guest refused all that was asked.
            PeerTimedOut: it may have taken effect.
            PeerUnreachable: nothing changed.
        """
        word = self._machine.ask_guest(timeout_s=min(GUEST_LIMIT_S, self._left() / 2))
        with qmp_session(self._machine.address, timeout_s=self._left()) as session:
            sight = self._check(session, word)
            use = None if sight.note is None or sight.note.use is None else sight.use
            # The token first: whoever comes with an older one from here on is refused.
            write_note(session, Note(self._token, use, self._machine.slot_bytes))
            done = self._step("memory", lambda: self._grow(session, sight.memory))
            done += self._step("CPU", lambda: self._set_cpus(session, sight))
            done += self._step("memory", lambda: self._begin_shrink(session, sight.memory, word))
            if done == 0 and self._problems:
                raise self._worst()
            self._note_target(session)
        if self._shrink is not None:
            self._shrink.watch(self._deadline)
        self._tell()

    def _note_target(self, session: QmpSession) -> None:
        """Keep the size as the one that was asked for last.

        Raises:
            PeerTimedOut: QEMU has gone, or time is up: what was asked for before may be done or not.
        """
        try:
            write_note(session, Note(self._token, self._target, self._machine.slot_bytes))
        except PeerError as err:
            raise PeerTimedOut(err.peer, f"resized, but not noted: {err.problem}") from err

    def _check(self, session: QmpSession, word: GuestWord) -> Sight:
        """What the VM is, if the caller may change it."""
        peer = session.peer
        if is_moving(session):
            raise PeerRefused(peer, "the VM is migrating", code=423)
        sight = self._machine.see(session, word, is_migrating=False)
        if sight.note is not None and self._token < sight.note.token:
            raise PeerRefused(peer, "an older token than one seen: another worker owns this VM", code=409)
        if sight.use is None:
            raise word.problem or PeerUnreachable(peer, "its size is not known")
        if self._vm.use != sight.use:
            raise PeerRefused(peer, "another size was asked for meanwhile", code=412)
        if self._target.has_field_above(self._vm.max.max(sight.use)) or self._target.has_field_below(
            self._vm.min.min(sight.use)
        ):
            raise PeerRefused(peer, "the size is out of the VM's bounds", code=422)
        return sight

    def _step(self, subject: str, act: Callable[[], bool]) -> int:
        """1 if something was asked for; a problem is noted, and the other steps go on."""
        try:
            return 1 if act() else 0
        except PeerError as err:
            self._problems.append(err)
            extra = {"vm": self._vm.key, "step": subject, "reason": str(err)}
            logger.warning("step of a resize failed", extra=extra)
            return 0

    def _grow(self, session: QmpSession, state: MemoryState) -> bool:
        """Ask for more, or for just what is there if something else was asked for before."""
        if self._goal < state.actual:
            return False
        if self._goal > state.most:
            raise PeerRefused(session.peer, f"it was started with room for {state.most >> 20} MiB only")
        if self._goal == state.requested:
            return False
        self._machine.memory.request(session, state, self._goal)
        return True

    def _set_cpus(self, session: QmpSession, sight: Sight) -> bool:
        if sight.observed is None and self._machine.guest is not None:
            if sight.use is not None and sight.use.cpu == self._target.cpu:
                return False
            raise PeerUnreachable(self._machine.guest.peer, "the guest does not answer")
        limit_s = min(CPU_LIMIT_S, self._left() - _RESERVE_S)
        self._machine.cpu.apply(session, sight.running, self._target.cpu, timeout_s=limit_s)
        if self._machine.cpu.is_rounded(self._target.cpu):
            extra = {"vm": self._vm.key, "milli_cpu": self._target.cpu, "cpus": whole_cpus(self._target.cpu)}
            logger.info("CPU rounded up to whole ones, there is no quota", extra=extra)
        return sight.observed is None or sight.observed.cpu != self._target.cpu

    def _begin_shrink(self, session: QmpSession, state: MemoryState, word: GuestWord) -> bool:
        """Ask for less, but never for less than the guest needs."""
        if self._goal >= state.actual:
            return False
        if word.problem is not None:
            raise PeerUnreachable(
                session.peer, f"no shrink while the guest is silent: {word.problem.problem}"
            )
        lowest = max(self._goal, state.least)
        if word.memory is not None:
            spare = spare_bytes(word.memory)
            lowest = max(lowest, state.actual - max(word.memory.available - spare, 0))
        lowest = whole_slots(lowest, state, self._machine.slot_bytes)
        if lowest >= state.actual:
            raise PeerRefused(session.peer, "the guest needs the memory that it has")
        shrink = Shrink(
            self._machine, self._vm.key, self._token, self._target, lowest=lowest, before=state.actual
        )
        shrink.begin(session, state, word.memory)
        self._shrink = shrink
        return True

    def _worst(self) -> PeerError:
        """What is raised when nothing was done: rather that it may have been done than that it was not."""
        for problem in self._problems:
            if isinstance(problem, PeerTimedOut):
                return problem
        return self._problems[0]

    def _tell(self) -> None:
        if self._problems:
            extra = {"vm": self._vm.key, "reason": "; ".join(str(each) for each in self._problems)[:300]}
            logger.warning("resize accepted in part", extra=extra)

    def _left(self) -> float:
        return max(self._deadline - time.monotonic(), 0.001)
