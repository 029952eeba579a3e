"""Small scenarios and traces for tests of what-if runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from app.config.loading import build_settings
from app.core.model import ScalingConfig
from app.core.permits import Amount
from app.core.resources import Resources, resources
from app.simulation.scenario import ControlPlane, Scenario, VmScenario

GIB = 1 << 30
UNIT = resources(250, 1)
CORE = build_settings({}, {}).core_config()
STEP_MS = 30_000


def a_control(*, unit: Resources = UNIT, load_target: float = 0.9, **changes: object) -> ControlPlane:
    core = replace(CORE, default_scaling_config=ScalingConfig(load_target, 0.75))
    return replace(ControlPlane(core, unit, 5_000), **changes)  # type: ignore[arg-type]


def a_vm(cpu: Sequence[float], mem_gib: Sequence[float] | float = 0.4, **changes: object) -> VmScenario:
    mem = [mem_gib] * len(cpu) if isinstance(mem_gib, float) else mem_gib
    vm = VmScenario(
        "vm-1",
        UNIT,
        resources(4_000, 16),
        UNIT,
        GIB,
        list(cpu),
        [value * GIB for value in mem],
    )
    return replace(vm, **changes)  # type: ignore[arg-type]


def a_scenario(*vms: VmScenario, control: ControlPlane | None = None, node_cpu: int = 1_000_000) -> Scenario:
    named = tuple(replace(vm, name=f"vm-{number}") for number, vm in enumerate(vms, 1))
    return Scenario(STEP_MS, len(vms[0].cpu), control or a_control(), named, Amount(node_cpu, 1_000 * GIB))


def write_trace(path: Path, values: Sequence[float], *, period_s: int = 300) -> str:
    """A CSV of Unix times and values with a header; its name."""
    rows = [f"{1_700_000_000 + number * period_s},{value}" for number, value in enumerate(values)]
    path.write_text("\n".join(["timestamp,value", *rows]) + "\n")
    return str(path)
