"""How many CPUs a VM runs: set by its guest daemon, or plugged by QMP; parts of one by a quota.

The driver `guest` has all CPUs there from the start, and lets the guest take them online and offline. The
driver `qmp` plugs them when they are needed. Under TCG `device_del` of a CPU crashes QEMU, so it is never
sent there: what the guest can't take offline stays.
"""

from __future__ import annotations

import time

from app.adapters.qemu_guest import GuestCpus, GuestDaemon
from app.adapters.qemu_quota import CpuQuota
from app.adapters.qmp import QmpSession
from app.core.resources import MilliCpu
from app.errors import PeerRefused, PeerUnreachable

_PRESENT_EVERY_S = 0.1
_PLUGGED = "vmscaler-cpu"
"""What the ids of the CPUs that we plugged begin with."""


class CpuDriver:
    """The CPUs of one VM.

    Args:
        guest: its daemon; None: only QMP knows and changes anything.
        is_plugged: CPUs come and go by QMP.
    """

    def __init__(self, guest: GuestDaemon | None, quota: CpuQuota, *, is_plugged: bool) -> None:
        self._guest = guest
        self._quota = quota
        self._is_plugged = is_plugged

    def guest_cpus(self, *, timeout_s: float) -> GuestCpus | None:
        """The guest's word; None where it has no daemon. Raises PeerError: unknown."""
        return None if self._guest is None else self._guest.cpus(timeout_s=timeout_s)

    def running(self, session: QmpSession, cpus: GuestCpus | None) -> int:
        """How many CPUs the VM runs: no more than QEMU has threads for, whatever the guest says."""
        threads = _count(session)
        return threads if cpus is None else min(cpus.online, threads)

    def observed(self, running: int, asked: MilliCpu | None) -> MilliCpu:
        """What that number is in milli-CPU.

        Without a quota, a part of a CPU is given as a whole one: the size asked for is what is observed, if
        it is just that many CPUs when rounded up. So a VM that can't be cut finer does not look unfinished.
        """
        whole = MilliCpu(running * 1000)
        if self._quota.is_usable():
            try:
                quota = self._quota.read()
            except (OSError, ValueError):
                quota = None
            return whole if quota is None else min(whole, quota)
        return asked if asked is not None and whole_cpus(asked) == running else whole

    def is_rounded(self, asked: MilliCpu) -> bool:
        """Whether that amount can only be had rounded up."""
        return asked % 1000 != 0 and not self._quota.is_usable()

    def apply(self, session: QmpSession, running: int, wanted: MilliCpu, *, timeout_s: float) -> None:
        """Have that much, rounded up to whole CPUs where there is no quota.

        Raises:
            PeerError: it was not done, or not all of it.
        """
        count = whole_cpus(wanted)
        if self._is_plugged:
            self._plug(session, count)
        if count != running:
            self._switch(session, count, timeout_s)
        if self._quota.is_usable():
            try:
                self._quota.write(wanted)
            except OSError as err:
                raise PeerRefused(session.peer, f"the CPU quota can't be set: {err.strerror}") from err

    def _switch(self, session: QmpSession, count: int, timeout_s: float) -> None:
        if self._guest is None:
            if count < _count(session):
                raise PeerRefused(session.peer, "without a guest daemon no CPU can be taken away under TCG")
            return
        deadline = time.monotonic() + timeout_s
        if self._is_plugged:
            _wait_present(self._guest, count, deadline)
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise PeerUnreachable(self._guest.peer, "no time left to set its CPUs")
        reached = self._guest.set_cpus(count, timeout_s=remaining)
        if self._is_plugged and reached.online == count:
            self._unplug(session, count)

    def _plug(self, session: QmpSession, count: int) -> None:
        """Add CPUs until there are that many."""
        missing = count - _count(session)
        found = session.execute("query-hotpluggable-cpus") if missing > 0 else []
        free = (
            [each for each in found if isinstance(each, dict) and "qom-path" not in each]
            if isinstance(found, list)
            else []
        )
        # QEMU lists the last place first; the guest counts from the first.
        for place in reversed(free[max(len(free) - missing, 0) :] if missing > 0 else []):
            props = place.get("props")
            if not isinstance(props, dict):
                raise PeerRefused(session.peer, "a place for a CPU that can't be read")
            name = _PLUGGED + "-".join(str(props[key]) for key in sorted(props))
            session.execute("device_add", driver=place.get("type"), id=name, **props)

    def _unplug(self, session: QmpSession, count: int) -> None:
        """Take away what the guest has set offline, where QEMU survives that."""
        kvm = session.execute("query-kvm")
        if not (isinstance(kvm, dict) and kvm.get("enabled") is True):
            return
        for cpu in reversed(_cpus(session)[count:]):
            path = str(cpu.get("qom-path", ""))
            if path.startswith(f"/machine/peripheral/{_PLUGGED}"):
                session.execute("device_del", id=path.rpartition("/")[2])


def _wait_present(guest: GuestDaemon, count: int, deadline: float) -> None:
    """A CPU that was plugged is there for the guest a moment later. Raises PeerError."""
    while (remaining := deadline - time.monotonic()) > 0:
        if guest.cpus(timeout_s=remaining).present >= count:
            return
        time.sleep(_PRESENT_EVERY_S)


def whole_cpus(milli: MilliCpu) -> int:
    """How many CPUs that much takes."""
    return -(-milli // 1000)


def _count(session: QmpSession) -> int:
    return len(_cpus(session))


def _cpus(session: QmpSession) -> list[dict[str, object]]:
    found = session.execute("query-cpus-fast")
    cpus = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    if not cpus:
        raise PeerRefused(session.peer, "a VM without CPUs")
    return cpus
