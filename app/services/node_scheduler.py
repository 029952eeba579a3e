"""The built-in scheduler: follows the platform's VMs, answers requests for permits, shows its books.

The rules and the arithmetic are `app.core.reservations`; here is what keeps them fed. Not known here: an
operator's override of a VM's mode. A VM that is made to observe by hand does not speak any more, and stays at
what it was granted last, or at its maximum after a restart: too much, never too little.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from app.core.fences import BucketFences
from app.core.model import Mode
from app.core.permits import Amount, Grant, PodFacts, Refusal, RefusalKind, Wish
from app.core.reservations import NodeView, Pod, Reservations
from app.core.resources import Resources
from app.ports.platform import Platform
from app.ports.runtime import Clock, Signal
from app.ports.vm import VirtualMachine, VmKey
from app.protocols.printable import printable
from app.services.inventory import Inventory
from app.services.pulse import Pulse

logger = logging.getLogger(__name__)

STUCK_AFTER_S = 60.0
"""A question to the platform is open for 5 s, and may take its time limits beside."""


class NodeScheduler:
    """Gives out the capacity of nodes; knows nothing until the platform's list has been read once.

    Attributes:
        grants: requests that were granted, in part or whole.
        refusals: requests that were not, by kind.
        pulse: whether the platform is still followed.

    Args:
        capacities: by node, what VMs may have of it: its total minus what the system keeps.
    """

    def __init__(self, platform: Platform, clock: Clock, capacities: Mapping[str, Amount]) -> None:
        self._clock = clock
        self._inventory = Inventory(platform, self._updated, self._removed, lambda: None, spread=0.5)
        self.pulse = Pulse(lambda: self._inventory.turns, clock, STUCK_AFTER_S, "what follows the platform")
        self._books = Reservations(dict(capacities))
        self._fences = BucketFences()
        # Guards the books and the fences: a request is one step, whatever serves it. No I/O is done under it.
        self._lock = threading.Lock()
        self.grants = 0
        self.refusals = dict.fromkeys(RefusalKind, 0)

    @property
    def is_ready(self) -> bool:
        """Whether the platform's VMs are known; before that every request would be of an unknown pod."""
        return self._inventory.is_ready

    @property
    def problem(self) -> str:
        """Why nothing new is heard from the platform, as text from a peer; "" while all is well."""
        return self._inventory.problem

    @property
    def problems(self) -> list[str]:
        """What an operator should know, a sentence each."""
        found = [self.problem[:200]] if self.problem else []
        nodes = {vm.node for vm in list(self._inventory.vms.values())} - self._books.capacities.keys()
        if nodes:
            named = printable(min(nodes)) or "no node at all"
            others = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
            found.append(
                f"VMs on {named}{others} get no permit: nodeScheduler.nodes does not say what is there"
            )
        return found

    @property
    def vm_count(self) -> int:
        """VMs that are known."""
        return len(self._inventory.vms)

    @property
    def refusal_count(self) -> int:
        """Requests that were not granted, of all kinds."""
        return sum(self.refusals.values())

    def run(self, stop: Signal) -> None:
        """Follow the platform until stopped; one job runs this."""
        self._inventory.run(stop)

    def slot_bytes(self, key: str) -> int | None:
        """Size of a VM's memory slots; None for a VM that is not known."""
        vm = self._inventory.vms.get(VmKey(key))
        return None if vm is None else vm.slot_bytes

    def request(self, key: str, wish: Wish, bucket: str = "") -> Grant | Refusal:
        """Answer one request for the VM `key`; safe to be called from several threads or greenlets.

        Args:
            bucket: the VM's, as its agent says: the token then counts for all of the bucket's VMs.
        """
        with self._lock:
            refusal = self._fenced(wish, bucket)
            answer = refusal or self._books.request(key, wish, now_ms=self._clock.wall_ms())
        if isinstance(answer, Grant):
            self.grants += 1
        else:
            self.refusals[answer.kind] += 1
        return answer

    def _fenced(self, wish: Wish, bucket: str) -> Refusal | None:
        if wish.token is None:
            return None
        newest = self._fences.raise_to(bucket, wish.token)
        if wish.token >= newest:
            return None
        text = f"{bucket}: token {wish.token} is older than {newest}; another agent owns this bucket now"
        return Refusal(RefusalKind.OLD_TOKEN, text)

    def dump(self) -> dict[str, object]:
        """The whole state as JSON values: CPU in milli-vCPU, memory in bytes, nodes and VMs by name."""
        with self._lock:
            nodes = [_show_node(view) for view in self._books.view()]
        return {
            "ready": self.is_ready,
            "problem": self.problem,
            "grants": self.grants,
            "refusals": {str(kind): count for kind, count in self.refusals.items()},
            "nodes": nodes,
        }

    def _updated(self, vm: VirtualMachine) -> None:
        with self._lock:
            self._books.update(facts_of(vm))

    def _removed(self, key: VmKey) -> None:
        with self._lock:
            self._books.remove(key)
        logger.info("reservation freed: the VM is gone", extra={"vm": key})


def facts_of(vm: VirtualMachine) -> PodFacts:
    """What the books need of a VM.

    An observed one counts with its observed size; one that we scale with the larger of that and the size
    asked for, field by field, because a size asked for may still come.
    """
    is_observed = vm.mode is Mode.OBSERVE
    size = vm.real_size if is_observed else vm.real_size.max(vm.use)
    return PodFacts(
        key=vm.key,
        uid=vm.uid,
        node=vm.node,
        maximum=amount_of(vm.max, vm.slot_bytes),
        size=amount_of(size, vm.slot_bytes),
        slot_bytes=vm.slot_bytes,
        is_observed=is_observed,
        is_migrating=vm.migrating,
    )


def amount_of(size: Resources, slot_bytes: int) -> Amount:
    """Slots as bytes."""
    return Amount(size.cpu, size.mem * slot_bytes)


def _show_node(view: NodeView) -> dict[str, object]:
    return {
        "name": view.name,
        "capacity": _show(view.capacity),
        "reserved": _show(view.reserved),
        "left": _show(view.left),
        "pressure": _show(view.pressure),
        "pods": [_show_pod(pod) for pod in view.pods],
    }


def _show_pod(pod: Pod) -> dict[str, object]:
    return {
        "pod": pod.facts.key,
        "reserved": _show(pod.reserved),
        "granted": None if pod.granted is None else _show(pod.granted),
        "size": _show(pod.facts.size),
        "maximum": _show(pod.facts.maximum),
        "pressure": _show(pod.pressure),
        "slotBytes": pod.facts.slot_bytes,
        "observed": pod.facts.is_observed,
        "migrating": pod.facts.is_migrating,
        "token": pod.token,
    }


def _show(amount: Amount) -> dict[str, int]:
    return {"milliCpu": amount.cpu, "bytes": amount.mem}
