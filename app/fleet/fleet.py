"""The fleet's state and the effects on it: sizes asked for, applied, refused; VMs deleted.

A size that is accepted is applied 0.5 to 3 s later, sometimes in part only, or never, as faults and rates
say; delays and failures are fixed by the seed, the VM and the number of the operation.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from app.adapters.journal_file import JournalFile
from app.core.fences import BucketFences
from app.core.resources import Resources, resources
from app.fleet.change_log import ChangeLog
from app.fleet.simulated_vm import SimulatedVm, born
from app.fleet.state_file import SavedFleet, size_facts
from app.simulation.faults import Fault, FaultBoard
from app.simulation.fleet_plan import VmPlan
from app.simulation.noise import between, noise


@dataclass(frozen=True, slots=True)
class ApplyRates:
    """How a platform behaves without any fault switched on.

    Attributes:
        refused: share of sizes that are refused.
        partial: share of which only the CPUs are applied.
        shortest_s: least delay before a size is applied.
        longest_s: greatest delay.
    """

    refused: float = 0.01
    partial: float = 0.02
    shortest_s: float = 0.5
    longest_s: float = 3.0


@dataclass(frozen=True, slots=True)
class SizeRequest:
    """A size that someone asks for.

    Attributes:
        basis: the size last asked for, as they know it.
        holder: who asks, for the journal; "" for someone who does not say.
        bucket: the VM's, whose other VMs the token concerns too; "" for someone who does not say.
    """

    target: Resources
    basis: Resources
    token: int
    holder: str = ""
    bucket: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to a request: an HTTP status (202 accepted) and a reason."""

    status: int
    reason: str


class Fleet:
    """All VMs; lives on one event loop, so nothing needs a lock."""

    def __init__(
        self,
        plans: tuple[VmPlan, ...],
        saved: SavedFleet,
        *,
        rates: ApplyRates,
        journal: JournalFile,
        on_deleted: Callable[[SimulatedVm], None],
    ) -> None:
        """Bring the planned VMs to life; those that were deleted stay so.

        Args:
            on_deleted: called once for a VM that goes, to close its server.
        """
        self._seed = saved.seed
        self._rates = rates
        self._journal = journal
        self._on_deleted = on_deleted
        self._deleted = list(saved.deleted)
        self._age_at_start_s = saved.age_s
        self._started = time.monotonic()
        self._applies: dict[str, asyncio.TimerHandle] = {}
        self._fences = BucketFences()
        self.log = ChangeLog(uuid.uuid4().hex[:12])
        self.faults = FaultBoard(saved.seed)
        self.is_dirty = True
        self.vms: dict[str, SimulatedVm] = {}
        for plan in plans:
            if plan.key not in saved.deleted:
                vm = born(plan, saved.vms.get(plan.key), uid=str(uuid.uuid4()), age_s=saved.age_s)
                self.vms[plan.key] = vm
                self.log.mark(plan.key)

    @property
    def age_s(self) -> float:
        """Seconds that the fleet has lived, time between its runs left out."""
        return self._age_at_start_s + time.monotonic() - self._started

    def present(self, vm: SimulatedVm) -> SimulatedVm:
        """The VM, its model brought up to now."""
        vm.model.advance_to(self.age_s)
        return vm

    def is_on(self, fault: Fault, vm: SimulatedVm) -> bool:
        """Whether a fault concerns the VM now."""
        return self.faults.is_on(fault, vm.key)

    def resume_applies(self) -> None:
        """Go on with what was accepted and not applied before a restart; needs the running loop."""
        for vm in self.vms.values():
            if vm.is_pending:
                self._apply_later(vm)

    def ask_size(self, vm: SimulatedVm, request: SizeRequest) -> Verdict:
        """Take or refuse a size: 202; 409 old token; 412 another basis; 422 out of bounds or refused."""
        verdict = self._judge(vm, request)
        self._note(vm, "asked", vm.use, request.target, request=request, verdict=verdict)
        if verdict.status != 202:
            return verdict
        vm.token = request.token
        vm.operations += 1
        vm.use = request.target
        vm.is_pending = True
        self._changed(vm)
        self._apply_later(vm)
        return verdict

    def see_token(self, bucket: str, token: int) -> None:
        """A bucket's owner has shown its token: what earlier ones still send is refused from now on."""
        self._fences.raise_to(bucket, token)

    def delete(self, vm: SimulatedVm) -> None:
        """Take a VM away for good; the second time does nothing."""
        if self.vms.pop(vm.key, None) is None:
            return
        self._stop_apply(vm)
        self._deleted.append(vm.key)
        self.log.remove(vm.key)
        self.is_dirty = True
        self._note(vm, "deleted", vm.observed, vm.observed)
        self._on_deleted(vm)

    def set_bounds(self, vm: SimulatedVm, least: Resources, most: Resources) -> None:
        """Change what a VM may be asked down and up to; its size stays."""
        vm.min, vm.max = least, most
        self._changed(vm)

    def listening(self, vm: SimulatedVm, port: int) -> None:
        """Its server has taken a port."""
        if port != vm.port:
            vm.port = port
            self._changed(vm)

    def note_contact(self, vm: SimulatedVm, effect: str, holder: str, **facts: object) -> None:
        """Put in the journal what was said to the VM itself: a poll, a monitor's connection or request."""
        if self._journal.is_kept:
            self._journal.write(vm=vm.key, effect=effect, holder=holder, **facts)

    def snapshot(self) -> SavedFleet:
        """What the state file should say now."""
        vms = {key: vm.saved() for key, vm in self.vms.items()}
        return SavedFleet(self._seed, self.age_s, vms, tuple(self._deleted))

    def close(self) -> None:
        """Drop what was still to be applied; the state file knows of it."""
        for handle in self._applies.values():
            handle.cancel()
        self._applies.clear()

    def _judge(self, vm: SimulatedVm, request: SizeRequest) -> Verdict:
        if request.token < vm.token:
            return Verdict(409, f"token {request.token} is older than {vm.token}")
        newest = self._fences.raise_to(request.bucket, request.token)
        if request.token < newest:
            return Verdict(409, f"token {request.token} is older than {newest} of {request.bucket}")
        vm.token = request.token
        if request.basis != vm.use:
            return Verdict(412, f"the size last asked for is {vm.use.cpu}m/{vm.use.mem}")
        if request.target.has_field_above(vm.max.max(vm.use)):
            return Verdict(422, "above the maximum")
        if request.target.has_field_below(vm.min.min(vm.use)):
            return Verdict(422, "below the minimum")
        is_unlucky = noise(self._seed, vm.key, "refused", vm.operations) < self._rates.refused
        if self.is_on(Fault.PATCH_REFUSED, vm) or is_unlucky:
            vm.operations += 1
            return Verdict(422, "refused by the simulated platform")
        return Verdict(202, "accepted")

    def _apply_later(self, vm: SimulatedVm) -> None:
        self._stop_apply(vm)
        rates = self._rates
        delay = between(rates.shortest_s, rates.longest_s, self._seed, vm.key, "delay", vm.operations)
        loop = asyncio.get_running_loop()
        if self.is_on(Fault.VM_DELETED, vm):
            self._applies[vm.key] = loop.call_later(delay, self.delete, vm)
        else:
            self._applies[vm.key] = loop.call_later(delay, self._apply, vm)

    def _stop_apply(self, vm: SimulatedVm) -> None:
        handle = self._applies.pop(vm.key, None)
        if handle is not None:
            handle.cancel()

    def _apply(self, vm: SimulatedVm) -> None:
        self._applies.pop(vm.key, None)
        self.present(vm)
        before = vm.observed
        is_unlucky = noise(self._seed, vm.key, "partial", vm.operations) < self._rates.partial
        if self.is_on(Fault.PATCH_NOT_APPLIED, vm):
            after, effect = before, "not applied"
        elif self.is_on(Fault.PATCH_PARTIAL, vm) or is_unlucky:
            after, effect = resources(vm.use.cpu, before.mem), "applied in part"
        else:
            after, effect = vm.use, "applied"
        vm.is_pending = False
        vm.model.grant(after)
        self._changed(vm)
        self._note(vm, effect, before, after)

    def _changed(self, vm: SimulatedVm) -> None:
        self.is_dirty = True
        self.log.mark(vm.key)

    def _note(
        self,
        vm: SimulatedVm,
        effect: str,
        before: Resources,
        after: Resources,
        *,
        request: SizeRequest | None = None,
        verdict: Verdict | None = None,
    ) -> None:
        facts: dict[str, object] = {
            "time": round(time.time(), 3),
            "vm": vm.key,
            "uid": vm.uid,
            "effect": effect,
            "token": vm.token if request is None else request.token,
            "from": size_facts(before),
            "to": size_facts(after),
        }
        if request is not None:
            facts |= {"holder": request.holder, "bucket": request.bucket}
        if verdict is not None:
            facts |= {"status": verdict.status, "reason": verdict.reason}
        self._journal.write(**facts)
