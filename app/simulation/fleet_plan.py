"""Which VMs a simulated fleet has: names, nodes, bounds, first sizes and loads, fixed by the seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from app.core.resources import Resources, resources
from app.errors import UsageError
from app.simulation.noise import between, noise
from app.simulation.played_trace import PlayedTrace, TraceChoice, players
from app.simulation.profiles import Profile, Workload

GIB = 1 << 30
NAMESPACE = "sim"
DEFAULT_MIX: Mapping[Profile, float] = {
    Profile.STEADY: 3,
    Profile.SPIKE: 3,
    Profile.LEAK: 2,
    Profile.IDLE: 2,
    Profile.DAILY: 1,
    Profile.FLAPPING: 1,
}
"""Weights of the profiles; every profile is there from six VMs on."""
MIN_SIZE = resources(250, 1)
MAX_SIZE = resources(4000, 8)
_ROLES = {
    Profile.STEADY: "db",
    Profile.SPIKE: "web",
    Profile.LEAK: "app",
    Profile.IDLE: "dev",
    Profile.DAILY: "shop",
    Profile.FLAPPING: "batch",
}
_SLOT_BYTES = (GIB, GIB // 4)


@dataclass(frozen=True, slots=True)
class VmPlan:
    """One VM as it is born."""

    name: str
    node: str
    min: Resources
    max: Resources
    first: Resources
    slot_bytes: int
    workload: Workload

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{NAMESPACE}/{self.name}"


def plan_fleet(
    count: int, seed: int, *, nodes: int = 2, mix: Mapping[Profile, float] = DEFAULT_MIX
) -> tuple[VmPlan, ...]:
    """The first `count` VMs; the first ones are the same whatever the count.

    Raises:
        ValueError: no profile has a weight above zero, or there is no node.
    """
    weights = {profile: weight for profile, weight in mix.items() if weight > 0}
    if not weights or nodes < 1:
        raise ValueError("a fleet needs a node and a profile with a weight above zero")
    shares = dict.fromkeys(weights, 0.0)
    plans: list[VmPlan] = []
    for number in range(1, count + 1):
        for profile, weight in weights.items():
            shares[profile] += weight / sum(weights.values())
        chosen = max(weights, key=lambda profile: shares[profile])
        shares[chosen] -= 1
        node = f"sim-node-{(number - 1) % nodes + 1}"
        plans.append(_plan_vm(f"{_ROLES[chosen]}-{number:03}", chosen, node, seed))
    return tuple(plans)


def with_traces(plans: Sequence[VmPlan], choice: TraceChoice) -> tuple[VmPlan, ...]:
    """The same VMs, those of the choice with a trace for their CPU demand.

    Raises:
        UsageError: a name that is no VM's.
    """
    playing, unknown = players(choice, [plan.key for plan in plans])
    if unknown:
        raise UsageError(f"--trace-vms: no such VM: {unknown[0]!r}")
    played = [PlayedTrace(trace, choice.speed) for trace in choice.traces]
    changed = []
    for plan in plans:
        if plan.key in playing:
            cpus = (choice.milli_cpus or plan.max.cpu) / 1000
            workload = replace(plan.workload, played=played[playing[plan.key]], played_cpus=cpus)
            changed.append(replace(plan, workload=workload))
        else:
            changed.append(plan)
    return tuple(changed)


def _plan_vm(name: str, profile: Profile, node: str, seed: int) -> VmPlan:
    slot_bytes = _SLOT_BYTES[int(noise(seed, name, "slot") * 2)]
    workload = Workload(profile, seed, name, MAX_SIZE.cpu / 1000, float(MAX_SIZE.mem * slot_bytes))
    return VmPlan(name, node, MIN_SIZE, MAX_SIZE, _first_size(name, profile, seed), slot_bytes, workload)


def _first_size(name: str, profile: Profile, seed: int) -> Resources:
    """Idle VMs begin too large, so that something goes down at once; those that will burst begin small."""
    match profile:
        case Profile.IDLE:
            units = int(between(6, 13, seed, name, "first"))
        case Profile.SPIKE:
            units = int(between(1, 3, seed, name, "first"))
        case _:
            units = int(between(4, 9, seed, name, "first"))
    return resources(MIN_SIZE.cpu * units, min(units, MAX_SIZE.mem))
