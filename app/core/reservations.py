"""The built-in scheduler's books: what each VM may hold of its node, as pure arithmetic.

Rules: `spec/scheduler-protocol.md`, its last section. CPU and memory are each handled on their own.
What is decided here, beyond the letter of the rules:

- A grant is exact: "up to what is left", not rounded to the compute unit (the unit is the grain of a wish,
  not of what there is). Memory grows by whole slots, because a VM can use nothing else; CPU by whole CPUs for
  speakers of a version below v2.0.
- A VM's *base* is granted always, even on a node that is over its capacity: what it was granted before, or,
  if it has not spoken yet, the size it really has and its permit from the scheduler before us. A permit below
  what the VM uses would be refused by its agent for ever.
- A platform's news of a larger size (a resize that nobody asked us for) is reserved at once, and part of the
  base from `SETTLE_MS` after the VM's last decrease on: until then it may be an echo of the size that it has
  just given up, and that may be promised to another.
- So an answer never lets a node's reservations grow beyond its capacity, nor further if they are beyond it.
- Sums are made anew for each answer: nothing is subtracted that could underflow or drift.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.core.permits import NOTHING, Amount, Grant, PodFacts, Refusal, RefusalKind, Wish, total

SETTLE_MS = 5_000
"""Milliseconds in which a platform's watch shows what an agent has told us; ours: more than its usual lag."""

WHOLE_CPU = 1_000
"""Milli-vCPU of a CPU; the grain of CPU before v2.0."""


@dataclass(slots=True)
class Pod:
    """One VM's page in the books.

    Attributes:
        granted: what it may hold; None until it has spoken.
        held: a larger size that the platform has shown since it spoke; nothing if there was none.
        pressure: what it wanted beyond its grant when it last asked.
        token: the highest one seen; None before any.
        lowered_ms: when it last gave something back.
    """

    facts: PodFacts
    granted: Amount | None = None
    held: Amount = NOTHING
    pressure: Amount = NOTHING
    token: int | None = None
    lowered_ms: int | None = None

    @property
    def reserved(self) -> Amount:
        """What nobody else gets: an upper bound of what the VM holds or can come to hold by itself."""
        if self.facts.is_observed:
            return self.facts.size.max(self.granted or NOTHING)
        if self.granted is None:
            return self.facts.maximum.max(self.facts.size)
        return self.granted.max(self.held)

    def base(self, last_permit: Amount | None, now_ms: int) -> Amount:
        """What it is granted whatever is left; never above `reserved`."""
        if self.granted is None:
            return self.facts.size.max(last_permit or NOTHING).min(self.reserved)
        if self.facts.is_observed:
            return self.reserved
        settled = self.lowered_ms is None or now_ms - self.lowered_ms >= SETTLE_MS
        return self.granted.max(self.held) if settled else self.granted

    def update(self, facts: PodFacts) -> None:
        """Take over what the platform says now of the same VM."""
        if facts.is_observed != self.facts.is_observed:
            self.granted, self.held, self.pressure = None, NOTHING, NOTHING
        elif facts.size != self.facts.size:
            self.held = facts.size
        self.facts = facts


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node's sums, for the dump.

    Attributes:
        capacity: total minus what the system keeps.
        reserved: by all of its VMs; may be above the capacity (start-up buffers, foreign resizes).
        left: what can still be granted, 0 at least.
        pressure: what its VMs wanted and did not get.
    """

    name: str
    capacity: Amount
    reserved: Amount
    left: Amount
    pressure: Amount
    pods: tuple[Pod, ...]


@dataclass(slots=True)
class Reservations:
    """The books of all nodes. One caller at a time.

    Attributes:
        capacities: by node, what VMs may have of it.
    """

    capacities: Mapping[str, Amount]
    _pods: dict[str, Pod] = field(default_factory=dict)
    _by_node: dict[str, dict[str, Pod]] = field(default_factory=dict)

    def update(self, facts: PodFacts) -> None:
        """Enter a VM, or what has changed of it. It takes its reservation along to another node."""
        pod = self._pods.get(facts.key)
        if pod is not None and pod.facts.uid == facts.uid:
            self._by_node[pod.facts.node].pop(facts.key)
            pod.update(facts)
        else:
            token = pod.token if pod is not None else None
            self.remove(facts.key)
            pod = Pod(facts, token=token)
        self._pods[facts.key] = pod
        self._by_node.setdefault(facts.node, {})[facts.key] = pod

    def remove(self, key: str) -> None:
        """Strike a VM that is gone, and free what it held; an unknown one is no mistake."""
        pod = self._pods.pop(key, None)
        if pod is not None:
            self._by_node[pod.facts.node].pop(key)

    def request(self, key: str, wish: Wish, *, now_ms: int) -> Grant | Refusal:
        """Enter what a VM wants to hold: lower is taken as told, higher as far as the node goes.

        A refusal changes nothing, but for the token that was seen.
        """
        pod = self._pods.get(key)
        if pod is None:
            return Refusal(RefusalKind.UNKNOWN_POD, f"pod {key} is not known")
        if wish.token is not None and pod.token is not None and wish.token < pod.token:
            text = f"pod {key}: token {wish.token} is older than {pod.token}; another agent owns this VM now"
            return Refusal(RefusalKind.OLD_TOKEN, text)
        if wish.token is not None:
            pod.token = wish.token
        capacity = self.capacities.get(pod.facts.node)
        if capacity is None:
            text = f"pod {key} is on node {pod.facts.node!r}, which nodeScheduler.nodes does not name"
            return Refusal(RefusalKind.UNKNOWN_NODE, text)
        return self._decide(pod, wish, capacity, now_ms)

    def view(self) -> tuple[NodeView, ...]:
        """All nodes by name, those that only VMs name included (their capacity is nothing)."""
        names = sorted(self.capacities.keys() | {name for name, pods in self._by_node.items() if pods})
        return tuple(self._view_node(name) for name in names)

    def _view_node(self, name: str) -> NodeView:
        pods = tuple(pod for _, pod in sorted(self._by_node.get(name, {}).items()))
        capacity = self.capacities.get(name, NOTHING)
        reserved = total(pod.reserved for pod in pods)
        pressure = total(pod.pressure for pod in pods)
        return NodeView(name, capacity, reserved, capacity.minus(reserved), pressure, pods)

    def _decide(self, pod: Pod, wish: Wish, capacity: Amount, now_ms: int) -> Grant | Refusal:
        wanted = wish.requested
        if wanted.cpu <= 0 or wanted.mem < pod.facts.slot_bytes:
            text = "requested CPU must be above 0, memory one slot at least"
            return Refusal(RefusalKind.BAD_REQUEST, text)
        base = pod.base(wish.last_permit, now_ms)
        if pod.facts.is_migrating and _is_change(pod, wanted, base):
            return Refusal(RefusalKind.MIGRATING, f"pod {pod.facts.key} migrates: its size must not change")
        neighbours = self._by_node[pod.facts.node].values()
        left = capacity.minus(total(other.reserved for other in neighbours if other is not pod)).minus(base)
        granted = Amount(
            grow(base.cpu, wanted.cpu, left.cpu, WHOLE_CPU if wish.is_whole_cpus else 1),
            grow(base.mem, wanted.mem, left.mem, pod.facts.slot_bytes),
        )
        permit = granted
        if wish.is_whole_cpus:
            permit = Amount(granted.cpu // WHOLE_CPU * WHOLE_CPU, granted.mem)
        refusal = _check(pod, wish, permit)
        if refusal is not None:
            return refusal
        if base.has_field_above(wanted):
            pod.lowered_ms = now_ms
        pod.granted = granted
        pod.held = pod.held.min(wanted)
        pod.pressure = wanted.minus(permit)
        return Grant(permit, pod.pressure, pod.facts.slot_bytes, pod.facts.is_migrating)


def grow(base: int, wanted: int, left: int, grain: int) -> int:
    """What is granted of one resource to a VM that is sure of `base` while `left` is free beside it.

    At most `wanted`; lower than `base` if that is wanted; what is above it ends at a multiple of `grain`.
    """
    if wanted <= base:
        return wanted
    return max(base, (base + min(left, wanted - base)) // grain * grain)


def _is_change(pod: Pod, wanted: Amount, base: Amount) -> bool:
    """Whether a VM that migrates asks for another size; a first word of what it holds is none."""
    if pod.granted is None:
        return wanted.has_field_above(base)
    return wanted not in (pod.granted, base)


def _check(pod: Pod, wish: Wish, permit: Amount) -> Refusal | None:
    """Whether the VM's agent could accept the permit (`spec/core.md`, "plugin: successful")."""
    if wish.is_whole_cpus and permit.cpu < max(WHOLE_CPU, min(wish.requested.cpu, pod.facts.size.cpu)):
        text = f"{wish.requested.cpu}m CPU: a version below v2.0 has whole CPUs only"
        return Refusal(RefusalKind.BAD_REQUEST, text)
    if permit.cpu <= 0 or permit.mem < pod.facts.slot_bytes:
        return Refusal(RefusalKind.NO_ROOM, f"node {pod.facts.node} has nothing left for pod {pod.facts.key}")
    return None
