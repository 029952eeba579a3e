"""One VM of the fleet: what the platform knows of it, and the model that stands for the real one."""

from __future__ import annotations

from dataclasses import dataclass

from app.core.resources import Resources
from app.fleet.state_file import SavedVm, size_facts
from app.simulation.fleet_plan import VmPlan
from app.simulation.vm_model import VmModel


@dataclass(slots=True)
class SimulatedVm:
    """A VM with its promises; changed by `Fleet` only.

    Attributes:
        use: the size last asked for and accepted.
        is_pending: `use` is still to be applied.
        token: the highest fencing token seen.
        operations: sizes accepted so far; numbers the delays and the failures.
        port: where its server listens; 0 until it does.
        is_push_only: it pushes its stats; nobody is told of a metrics page.
        model: what it really is; `model.granted` is the observed size.
    """

    plan: VmPlan
    uid: str
    use: Resources
    min: Resources
    max: Resources
    model: VmModel
    is_pending: bool = False
    token: int = 0
    operations: int = 0
    port: int = 0
    is_push_only: bool = False

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return self.plan.key

    @property
    def observed(self) -> Resources:
        """The size that it really has."""
        return self.model.granted

    def facts(self, host: str) -> dict[str, object]:
        """The VM as the control interface shows it; `host` is where its server listens."""
        address = {"host": host, "port": self.port}
        namespace, _, name = self.key.partition("/")
        return {
            "namespace": namespace,
            "name": name,
            "uid": self.uid,
            "node": self.plan.node,
            "min": size_facts(self.min),
            "max": size_facts(self.max),
            "use": size_facts(self.use),
            "observed": size_facts(self.observed),
            "slot_bytes": self.plan.slot_bytes,
            "mode": "scale",
            "monitor": "required",
            "metrics": None if self.is_push_only else address,
            "monitor_address": address,
            "informant": address,
            "endpoint_id": f"ep-{name}",
            "profile": self.plan.workload.kind,
        }

    def saved(self) -> SavedVm:
        """What the state file keeps of it."""
        return SavedVm(
            uid=self.uid,
            port=self.port,
            use=self.use,
            observed=self.observed,
            min=self.min,
            max=self.max,
            is_pending=self.is_pending,
            token=self.token,
            operations=self.operations,
        )


def born(plan: VmPlan, saved: SavedVm | None, *, uid: str, age_s: float) -> SimulatedVm:
    """A VM as planned, or as it was saved.

    Args:
        uid: for one that was not saved.
        age_s: the fleet's age.
    """
    if saved is None:
        model = VmModel(plan.workload, plan.first, plan.slot_bytes, age_s=age_s)
        return SimulatedVm(plan, uid, plan.first, plan.min, plan.max, model)
    return SimulatedVm(
        plan,
        saved.uid,
        saved.use,
        saved.min,
        saved.max,
        VmModel(plan.workload, saved.observed, plan.slot_bytes, age_s=age_s),
        is_pending=saved.is_pending,
        token=saved.token,
        operations=saved.operations,
        port=saved.port,
    )
