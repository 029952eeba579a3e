"""The informant of one simulated VM: the guest's own, over the model's memory."""

from __future__ import annotations

import time

from app.fleet.fleet import Fleet
from app.fleet.simulated_vm import SimulatedVm
from app.guest.http_messages import Request, Response
from app.guest.informant import Informant
from app.guest.informant_agents import InformantAgents
from app.protocols.memory_policy import SAMPLES, DownscaleVerdict, MemoryPolicy
from app.simulation.faults import Fault


class VmInformant:
    """One VM's informant; `stop` once."""

    def __init__(self, fleet: Fleet, vm: SimulatedVm) -> None:
        self._agents = InformantAgents()
        workload = _SimulatedWorkload(fleet, vm)
        self._informant = Informant(self._agents, workload, metrics_port=lambda: vm.port)

    def serves(self, path: str) -> bool:
        """Whether the path is one of the protocol's."""
        return self._informant.serves(path)

    async def handle(self, request: Request) -> Response:
        """Answer a request to a path that `serves` knows."""
        return await self._informant.handle(request)

    async def stop(self) -> None:
        """End its checks and calls; agents are not told, as when a VM is switched off."""
        await self._agents.stop()


class _SimulatedWorkload:
    """The memory rule over what the model uses now."""

    def __init__(self, fleet: Fleet, vm: SimulatedVm) -> None:
        self._fleet = fleet
        self._vm = vm

    async def try_downscale(self, cpu: float, mem: int) -> DownscaleVerdict:
        if self._fleet.is_on(Fault.MONITOR_DENIES, self._vm):
            return DownscaleVerdict(is_allowed=False, status="denied by the fault monitor-denies")
        vm = self._fleet.present(self._vm)
        policy, now = MemoryPolicy(vm.observed.mem * vm.plan.slot_bytes), time.monotonic()
        for _ in range(SAMPLES):
            policy.record(now, vm.model.used_bytes)
        return policy.judge_downscale(now, mem)

    async def notify_upscale(self, cpu: float, mem: int) -> None:
        """The rule above takes the size that the model has; there is nothing to note."""
