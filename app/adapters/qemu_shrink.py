"""Taking memory away from a guest: in steps, each only after a look at what it has left.

A guest may use at any moment what it had left a moment ago, and one that runs short of memory answers late.
So a step takes half of what can be spared, and the next one comes when the guest has given that and has
said how it is. One that leaves a question unanswered keeps what it has; one that runs short, or stays
silent, gets back at once all that this resize has taken. That a resize ends half-way is a normal state: it
is seen in the observed size, and asked for again.
"""

from __future__ import annotations

import logging
import time

from app.adapters.qemu_guest import GuestMemory
from app.adapters.qemu_machine import QemuMachine
from app.adapters.qemu_memory import MemoryState
from app.adapters.qemu_note import read_note
from app.adapters.qmp import QmpSession, qmp_session
from app.core.resources import Resources
from app.errors import PeerError
from app.ports.vm import VmKey

logger = logging.getLogger(__name__)

SHRINK_LIMIT_S = 8.0
"""For which a shrink is watched; 512 MiB take 1 to 4 s."""
LOOK_EVERY_S = 0.25
MAX_SILENCES = 2
"""Questions in a row that a shrinking guest may leave unanswered; a busy one misses one now and then."""
ANSWER_LIMIT_S = 2.0
"""For the guest's word meanwhile: 25 to 100 ms, more under load."""
SPARE_BYTES = 48 * 1024 * 1024
"""What a shrink leaves available at least, and a tenth of what is in use."""
_RESERVE_S = 0.5


class Shrink:
    """The shrink of one resize, from its first step to its end.

    Args:
        key: of the VM, for the log.
        token, target: as in the VM's note while this is the last size asked for; another note ends it.
        lowest: bytes that are to be reached.
        before: bytes that the VM had.
    """

    def __init__(
        self,
        machine: QemuMachine,
        key: VmKey,
        token: int,
        target: Resources,
        *,
        lowest: int,
        before: int,
    ) -> None:
        self._machine = machine
        self._key = key
        self._token = token
        self._target = target
        self._lowest = lowest
        self._before = before

    def begin(self, session: QmpSession, state: MemoryState, memory: GuestMemory | None) -> None:
        """Ask for the first step. Raises PeerError."""
        self._machine.memory.request(session, state, self._next_goal(state, memory))

    def watch(self, deadline: float) -> None:
        """Go on until it is done, not ours any more, or out of time; never raises for what peers do.

        Args:
            deadline: of the resize, on the monotonic clock.
        """
        until = min(time.monotonic() + SHRINK_LIMIT_S, deadline - _RESERVE_S)
        problem, silences = "", 0
        while not problem:
            time.sleep(LOOK_EVERY_S)
            memory: GuestMemory | None = None
            is_told, floor = True, 0
            try:
                memory = self._ask(until)
                silences = 0
            except PeerError as err:
                is_told, silences = False, silences + 1
                if silences >= MAX_SILENCES:
                    problem, floor = f"the guest is silent: {err.problem}", self._before
            if memory is not None and memory.available < spare_bytes(memory) // 2:
                problem, floor = "the guest runs short of memory", self._before
            elif not problem and time.monotonic() >= until:
                problem = "not complete in time"
            try:
                if self._go_on(memory, deadline, floor=floor, may_step=is_told, is_ending=bool(problem)):
                    return
            except PeerError as err:
                problem = problem or err.problem
        extra = {"vm": self._key, "reason": problem, "wanted_mib": self._lowest >> 20}
        logger.warning("shrink stopped", extra=extra)

    def _ask(self, until: float) -> GuestMemory | None:
        """The guest's memory; None where nobody tells, or no time is left. Raises PeerError: it is silent."""
        remaining = until - time.monotonic()
        if self._machine.page is None or remaining <= 0:
            return None
        return self._machine.page.memory(timeout_s=min(ANSWER_LIMIT_S, remaining))

    def _go_on(
        self, memory: GuestMemory | None, deadline: float, *, floor: int, may_step: bool, is_ending: bool
    ) -> bool:
        """Look at QEMU, and ask for the next step, or to stay; whether it is over. Raises PeerError."""
        limit_s = max(deadline - time.monotonic(), _RESERVE_S)
        with qmp_session(self._machine.address, timeout_s=limit_s) as session:
            note = read_note(session)
            if note is None or note.token != self._token or note.use != self._target:
                return True
            state = self._machine.memory.read(session)
            if is_ending:
                if floor or state.actual > self._lowest:
                    self._machine.memory.request(session, state, max(self._kept(state), floor))
                return not floor and state.actual <= self._lowest
            if state.actual <= self._lowest:
                return True
            if not may_step and state.requested < state.actual:
                self._machine.memory.request(session, state, self._kept(state))
            elif may_step and state.actual <= state.requested:
                goal = self._next_goal(state, memory)
                if goal < state.actual:
                    self._machine.memory.request(session, state, goal)
            return False

    def _next_goal(self, state: MemoryState, memory: GuestMemory | None) -> int:
        """How far the next step goes; nothing is known of a guest without a page."""
        if memory is None:
            return self._lowest
        spare = max(memory.available - spare_bytes(memory), 0)
        step = max(spare // 2, min(spare, self._machine.slot_bytes))
        goal = max(self._lowest, state.actual - step)
        return min(whole_slots(goal, state, self._machine.slot_bytes), state.actual)

    def _kept(self, state: MemoryState) -> int:
        """What it has, in whole slots: a part of one would be read as if it were not there."""
        return min(whole_slots(state.actual, state, self._machine.slot_bytes), self._before)


def whole_slots(size: int, state: MemoryState, slot_bytes: int) -> int:
    """The size rounded up to slots, and to what the device can have."""
    rounded = -(-size // slot_bytes) * slot_bytes
    return state.least + -(-(rounded - state.least) // state.block) * state.block


def spare_bytes(memory: GuestMemory) -> int:
    """What must stay available in the guest when it shrinks."""
    return max(SPARE_BYTES, (memory.total - memory.available) // 10)
