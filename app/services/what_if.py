"""What-if runs: play them, and give their answers as JSON, as a timeline in CSV, and as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from app.config.settings import Settings
from app.core.phrases import cpu_text, size_text
from app.core.resources import Resources
from app.services.what_if_options import Value
from app.services.what_if_plan import RunOptions, build_options, build_scenario
from app.simulation.cost import GIB, Figures, Hours, total_figures
from app.simulation.scenario import Scenario
from app.simulation.timeline_svg import Panel, draw
from app.simulation.trace import Trace
from app.simulation.what_if_engine import VmOutcome, run_scenario

MAX_PANELS = 12
"""Diagrams of a picture; further VMs are left out of it, never out of the figures."""

TIMELINE_COLUMNS = (
    "run",
    "vm",
    "time_s",
    "demand_cpu",
    "load1",
    "desired_cpu",
    "allocated_cpu",
    "demand_mem_bytes",
    "desired_mem_bytes",
    "allocated_mem_bytes",
    "short_s",
)
"""A line a VM and step. Demand and allocated are means of the step that begins at `time_s`, load and desired
are those at its end, `short_s` is the time in it with less than needed."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run that was played.

    Attributes:
        name: the file of a comparison; empty for a single run.
        notes: what was done about the traces, for the operator.
    """

    name: str
    options: RunOptions
    scenario: Scenario
    vms: tuple[VmOutcome, ...]
    notes: tuple[str, ...]

    @property
    def total(self) -> Figures:
        """The figures of all VMs together."""
        return total_figures([vm.figures for vm in self.vms])


def play(
    name: str, given: Mapping[str, Value], settings: Settings, traces: Sequence[Trace], mem: Trace | None
) -> Run:
    """Play one configuration on the traces.

    Raises:
        UsageError: options that don't go together, or a run that would be too long.
    """
    options = build_options(given, settings)
    scenario, notes = build_scenario(options, traces, mem)
    return Run(name, options, scenario, run_scenario(scenario), tuple(notes))


def run_json(run: Run) -> dict[str, object]:
    """A run's answer; numbers are rounded to six decimals."""
    scenario = run.scenario
    return {
        "name": run.name,
        "duration_s": scenario.duration_ms / 1000,
        "steps": scenario.steps,
        "options": _options_json(run.options),
        "notes": list(run.notes),
        "vms": [{"name": vm.plan.name, **figures_json(vm.figures)} for vm in run.vms],
        "total": figures_json(run.total),
    }


def figures_json(figures: Figures) -> dict[str, object]:
    """Figures; shares are 0 to 1, and null where there was no demand."""
    cpu, mem = figures.cpu, figures.mem
    return {
        "cpu_hours": _hours_json(cpu),
        "gib_hours": _hours_json(mem),
        "short_time_share": _rounded(figures.short_ms / figures.vm_ms),
        "short_cpu_time_share": _rounded(figures.short_cpu_ms / figures.vm_ms),
        "short_mem_time_share": _rounded(figures.short_mem_ms / figures.vm_ms),
        "short_cpu_demand_share": _share(cpu.missing, cpu.demand),
        "short_mem_demand_share": _share(mem.missing, mem.demand),
        "longest_shortage_s": figures.longest_ms / 1000,
        "resizes": figures.upscales + figures.downscales,
        "upscales": figures.upscales,
        "downscales": figures.downscales,
        "direction_changes": figures.direction_changes,
        "direction_changes_per_day": _rounded(figures.changes_per_day),
        "downscales_denied": figures.denied,
        "permits_cut": figures.permits_cut,
        "failures": figures.failures,
    }


def timeline_lines(runs: Sequence[Run]) -> Iterator[str]:
    """The timeline as CSV lines, header first, run by run, VM by VM, in the order of time."""
    yield ",".join(TIMELINE_COLUMNS)
    for run in runs:
        step_s = run.scenario.step_ms / 1000
        for vm in run.vms:
            plan, course = vm.plan, vm.timeline
            head = f"{_field(run.name)},{plan.name}"
            for step in range(run.scenario.steps):
                yield (
                    f"{head},{step * step_s:.10g},{plan.cpu[step]:.6f},{course.load1[step]:.6f},"
                    f"{course.desired_cpu[step] / 1000:g},{course.cpu[step] / 1000:.6f},"
                    f"{plan.mem[step]:.0f},{course.desired_mem[step]},{course.mem[step]:.0f},"
                    f"{course.short_ms[step] / 1000:g}"
                )


def picture(runs: Sequence[Run], title: str, *, with_memory: bool) -> str:
    """The timelines as SVG: a diagram a VM and resource, run below run."""
    panels: list[Panel] = []
    for run in runs:
        for vm in run.vms:
            if len(panels) < MAX_PANELS:
                panels.append(_cpu_panel(run, vm))
            if with_memory and len(panels) < MAX_PANELS:
                panels.append(_memory_panel(run, vm))
    return draw(title, panels, max(run.scenario.duration_ms for run in runs) / 1000)


def _cpu_panel(run: Run, vm: VmOutcome) -> Panel:
    plan, course = vm.plan, vm.timeline
    return Panel(
        _panel_name(run, vm, "CPU-hours", vm.figures.cpu, vm.figures.short_cpu_ms),
        "CPU",
        plan.cpu,
        course.load1,
        [milli / 1000 for milli in course.desired_cpu],
        [milli / 1000 for milli in course.cpu],
        (plan.min.cpu / 1000, plan.max.cpu / 1000),
        [milliseconds / run.scenario.step_ms for milliseconds in course.short_cpu_ms],
    )


def _memory_panel(run: Run, vm: VmOutcome) -> Panel:
    plan, course = vm.plan, vm.timeline
    return Panel(
        _panel_name(run, vm, "GiB-hours", vm.figures.mem, vm.figures.short_mem_ms),
        "GiB",
        [count / GIB for count in plan.mem],
        None,
        [count / GIB for count in course.desired_mem],
        [count / GIB for count in course.mem],
        (plan.min.mem * plan.slot_bytes / GIB, plan.max.mem * plan.slot_bytes / GIB),
        [milliseconds / run.scenario.step_ms for milliseconds in course.short_mem_ms],
    )


def _panel_name(run: Run, vm: VmOutcome, what: str, hours: Hours, short_ms: int) -> str:
    name = f"{run.name} · {vm.plan.name}" if run.name else vm.plan.name
    return (
        f"{name} — {hours.allocated:.1f} {what}, fixed {hours.fixed:.1f}, least {hours.clairvoyant:.1f}; "
        f"less than needed {100 * short_ms / vm.figures.vm_ms:.2f} % of the time"
    )


def _options_json(options: RunOptions) -> dict[str, object]:
    vm, control = options.vm, options.control
    targets = control.core.default_scaling_config
    return {
        "min": _size_json(vm.min, vm.slot_bytes),
        "max": _size_json(vm.max, vm.slot_bytes),
        "unit": _size_json(control.unit, vm.slot_bytes),
        "slot_bytes": vm.slot_bytes,
        "start": vm.start,
        "load_target": targets.load_average_fraction_target,
        "mem_target": targets.memory_usage_fraction_target,
        "poll_period_s": control.poll_ms / 1000,
        "step_s": options.step_ms / 1000,
        "delays_s": {
            "permit": control.delays.permit / 1000,
            "monitor": control.delays.monitor / 1000,
            "resize": control.delays.resize / 1000,
        },
        "failures": {
            "poll": control.rates.poll,
            "permit": control.rates.permit,
            "resize": control.rates.resize,
            "monitor": control.rates.monitor,
            "denial": control.rates.denial,
        },
        "seed": control.seed,
        "trace_cpu_m": vm.trace_cpus,
        "node_cpu_m": options.node_cpu,
        "node_mem_bytes": options.node_mem,
    }


def describe(run: Run) -> str:
    """The run's frame in a line: how long, which VM, which unit, which targets."""
    options, scenario = run.options, run.scenario
    vm, control = options.vm, options.control
    targets = control.core.default_scaling_config
    many = f"{len(scenario.vms)} VMs, each " if len(scenario.vms) > 1 else "a VM "
    return (
        f"{scenario.duration_ms / 86_400_000:.2f} days in steps of {options.step_ms / 1000:g} s, {many}"
        f"{size_text(vm.min, vm.slot_bytes)} to {size_text(vm.max, vm.slot_bytes)}, "
        f"unit {size_text(control.unit, vm.slot_bytes)}, "
        f"targets {targets.load_average_fraction_target:g} and {targets.memory_usage_fraction_target:g}, "
        f"polled every {cpu_text(control.poll_ms)} s"
    )


def _size_json(size: Resources, slot_bytes: int) -> dict[str, int]:
    return {"cpu_m": size.cpu, "mem": size.mem, "mem_bytes": size.mem * slot_bytes}


def _hours_json(hours: Hours) -> dict[str, object]:
    return {
        "allocated": _rounded(hours.allocated),
        "demand": _rounded(hours.demand),
        "fixed": _rounded(hours.fixed),
        "clairvoyant": _rounded(hours.clairvoyant),
        "missing": _rounded(hours.missing),
        "saved_of_fixed": _share(hours.fixed - hours.allocated, hours.fixed),
        "above_clairvoyant": _share(hours.allocated - hours.clairvoyant, hours.clairvoyant),
    }


def _share(part: float, whole: float) -> float | None:
    return _rounded(part / whole) if whole else None


def _rounded(value: float) -> float:
    return round(value, 6) + 0.0


def _field(text: str) -> str:
    """A field of a CSV line; quoted where it must be."""
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"\r\n') else text
