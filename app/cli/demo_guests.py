"""Asks the demo's guests about themselves, once a second, and turns their loads as a plan says.

In a thread of its own: a guest under full load takes seconds to answer, and the demo looks after children.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from app.adapters.qemu_guest import DEFAULT_LOAD_RATE, GuestDaemon
from app.cli.demo_vm_script import GuestFacts, LoadOrder
from app.errors import PeerError
from app.services.fleet_view import FleetView

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
_ANSWER_LIMIT_S = 4.0
_MIB = 1 << 20

Plan = Callable[[float, Mapping[str, GuestFacts], bool], Sequence[LoadOrder]]
"""Called with seconds since the start, what guests say, and whether the fleet has them; gives loads."""


class GuestWatch:
    """Watches guests; `start` and `stop` once. A `Companion` of the demo's run.

    Args:
        guests: by the VM's name.
        plan: what loads to put on them; called in the thread that watches.
    """

    def __init__(self, guests: Mapping[str, GuestDaemon], plan: Plan) -> None:
        self._guests = guests
        self._plan = plan
        self._lock = threading.Lock()  # guards what follows; no I/O under it
        self._facts: dict[str, GuestFacts] = {}
        self._silent: dict[str, str] = {}
        self._is_ready = False
        self._failure: BaseException | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="demo-guests")
        self._begun = 0.0

    def start(self) -> None:
        """Begin; the plan's seconds count from here."""
        self._begun = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        """End; what has made the plan fail is raised here."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._failure is not None:
            raise self._failure

    def notes(self, view: FleetView | None, elapsed_s: float) -> Sequence[str]:
        """What each guest says of itself, a line each."""
        with self._lock:
            self._is_ready = view is not None and _has_all(view, set(self._guests))
            return [self._note(name) for name in self._guests]

    def _note(self, name: str) -> str:
        facts = self._facts.get(name)
        if name in self._silent or facts is None:
            return f"{name} says nothing: {self._silent.get(name, 'not asked yet')}"
        load = ", loaded" if facts.is_loaded else ""
        return f"{name} says: nproc {facts.cpus}, MemTotal {facts.total // _MIB} MiB{load}"

    def _watch(self) -> None:
        try:
            while not self._stopping.wait(LOOK_EVERY_S):
                facts = {name: each for name in self._guests if (each := self._ask(name)) is not None}
                with self._lock:
                    self._facts.update(facts)
                    is_ready = self._is_ready
                for order in self._plan(time.monotonic() - self._begun, facts, is_ready):
                    self._begin(order)
        except Exception as err:
            logger.exception("the guests are watched no more")
            self._failure = err

    def _ask(self, name: str) -> GuestFacts | None:
        guest = self._guests[name]
        try:
            cpus = guest.cpus(timeout_s=_ANSWER_LIMIT_S)
            memory = guest.memory(timeout_s=_ANSWER_LIMIT_S)
            load = guest.load(timeout_s=_ANSWER_LIMIT_S)
        except PeerError as err:
            with self._lock:
                self._silent[name] = err.problem
            return None
        with self._lock:
            self._silent.pop(name, None)
        return GuestFacts(cpus.online, memory.total, memory.available, load.is_running, load.ended)

    def _begin(self, order: LoadOrder) -> None:
        """Put a load on; a busy guest is asked again at once."""
        for is_last in (False, False, True):
            try:
                self._guests[order.vm].begin_load(
                    milli_cpu=order.milli_cpu,
                    memory=order.memory,
                    rate=DEFAULT_LOAD_RATE,
                    seconds=order.seconds,
                    timeout_s=2 * _ANSWER_LIMIT_S,
                )
            except PeerError:
                if is_last:
                    raise
            else:
                return


def _has_all(view: FleetView, names: set[str]) -> bool:
    """Whether the fleet polls all of them, and has asked a scheduler."""
    found = {row.key.rpartition("/")[2]: row for row in view.vms}
    return names <= set(found) and all(
        found[name].metrics is not None and found[name].permit is not None for name in names
    )
