"""One VM in the state dump (`spec/agent.md`, "State dump"), under the names that existing tools read.

Only reads, and takes no lock: it is called from another thread than the one that the runners live in, while
they go on. Each value is read once; the whole core state is one frozen object. Times are RFC 3339, in UTC.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from app.core.json_forms import scaling_to_json
from app.core.model import Millis, Mode
from app.core.resources import Resources
from app.core.snapshot import to_snapshot
from app.ports.peers import SchedulerInfo
from app.ports.runtime import Clock, Monotonic
from app.ports.vm import VirtualMachine, VmKey
from app.services.monitor_link import MonitorLink
from app.services.runner import Runner
from app.services.runner_life import EndState, Life

MAX_ERROR = 400
"""Characters of a `collectionError`."""


def utc_text(at_ms: int) -> str:
    """Unix milliseconds as `2026-01-31T12:00:00.000Z`."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class PodName(NamedTuple):
    """Of the pod that a VM runs in; in this order pods are listed."""

    namespace: str
    name: str

    @classmethod
    def of(cls, key: VmKey, vm: VirtualMachine | None) -> PodName:
        """As the platform tells it; the VM's own name where it has no pods, or does not know the VM now."""
        namespace, _, name = key.partition("/")
        return cls(namespace, name if vm is None or vm.pod_name is None else vm.pod_name)

    def as_json(self) -> dict[str, str]:
        """As the dump spells it."""
        return {"name": self.name, "namespace": self.namespace}


def uncollected_pod(name: PodName, problem: str) -> dict[str, object]:
    """A VM of which nothing but its name can be told, and why."""
    return {"podName": name.as_json(), "collectionError": problem[:MAX_ERROR]}


class PodStates:
    """Tells of one VM at a time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def pod(
        self,
        name: PodName,
        life: Life,
        runner: Runner | None,
        vm: VirtualMachine | None,
        *,
        scheduler: SchedulerInfo | None,
        link: MonitorLink | None,
    ) -> dict[str, object]:
        """The VM with its runner, or without while there is none; what fails is told as `collectionError`."""
        try:
            pod: dict[str, object] = {"podName": name.as_json(), "status": self._status(life, runner, vm)}
        except Exception as err:  # noqa: BLE001 the edge of a VM: the others are told of
            return uncollected_pod(name, _text(err))
        if runner is not None:
            try:
                pod["runner"] = runner_state(runner, scheduler, link)
            except Exception as err:  # noqa: BLE001 the edge of a VM
                pod["collectionError"] = _text(err)[:MAX_ERROR]
        return pod

    def _status(self, life: Life, runner: Runner | None, vm: VirtualMachine | None) -> dict[str, object]:
        vm = vm if runner is None else runner.vm
        end = life.end
        changed_ms = life.started_ms if end is None else end.at_ms
        return {
            "startTime": utc_text(life.started_ms),
            "endState": None if end is None else _end_json(end),
            "previousEndStates": [_end_json(each) for each in life.previous],
            "lastSuccessfulMonitorComm": None if runner is None else self._wall(runner.monitor_ok),
            "vmInfo": None if vm is None else vm_info(vm, runner),
            "endpointID": "" if vm is None or vm.endpoint_id is None else vm.endpoint_id,
            "endpointAssignedAt": None if runner is None else self._wall(runner.endpoint_since),
            "state": runner.status if runner is not None else "ok" if end is None else end.kind.value,
            "stateUpdatedAt": utc_text(changed_ms if runner is None else runner.status_ms),
        }

    def _wall(self, at: Monotonic | None) -> str | None:
        if at is None:
            return None
        return utc_text(self._clock.wall_ms() - round((self._clock.monotonic() - at) * 1000))


def runner_state(
    runner: Runner, scheduler: SchedulerInfo | None, link: MonitorLink | None
) -> dict[str, object]:
    """The runner's part: the whole core state, and what it has to do with its peers."""
    vm = runner.vm
    address = vm.monitor_address or vm.metrics
    info = None
    if scheduler is not None:
        info = {"name": scheduler.name, "uid": scheduler.uid, "url": scheduler.url}
    return {
        "podIP": "" if address is None else address.host,
        "executorState": to_snapshot(runner.state),
        "scheduler": {"info": info},
        "monitor": None if link is None else {"waitersSize": link.waiters_size},
        "backgroundWorkerCount": int(runner.is_busy) + int(link is not None) + int(not runner.is_ready),
    }


def vm_info(vm: VirtualMachine, runner: Runner | None) -> dict[str, object]:
    """The VM as its platform describes it; CPUs as a number, memory in slots."""
    mode = vm.mode if runner is None else runner.mode
    scaling = vm.scaling_config
    return {
        "name": vm.name,
        "namespace": vm.namespace,
        "uid": vm.uid,
        "node": vm.node,
        "cpu": {name: size.cpu / 1000 for name, size in _sizes(vm).items()},
        "mem": {**{name: size.mem for name, size in _sizes(vm).items()}, "slotSize": vm.slot_bytes},
        "config": {
            "scalingEnabled": mode is Mode.SCALE,
            "scalingConfig": None if scaling is None else scaling_to_json(scaling),
        },
        "migrating": vm.migrating,
    }


def _sizes(vm: VirtualMachine) -> dict[str, Resources]:
    return {"min": vm.min, "max": vm.max, "use": vm.use}


def _text(err: Exception) -> str:
    return f"{type(err).__name__}: {err}"


def _end_json(end: EndState) -> dict[str, object]:
    return {"exitKind": end.kind.value, "error": end.error or None, "time": utc_text(Millis(end.at_ms))}
