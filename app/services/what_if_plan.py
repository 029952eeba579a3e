"""From options, configuration and traces to a scenario, and what is to be said about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from app.config.settings import Settings
from app.core.model import CoreConfig, Millis, ScalingConfig
from app.core.permits import Amount
from app.core.phrases import mem_text
from app.core.resources import Resources, resources
from app.errors import UsageError
from app.services.what_if_options import LEAST_POLL_MS, MAX_VMS, OPTIONS, Value
from app.simulation.scenario import ControlPlane, Delays, FailureRates, Scenario, VmScenario, least_size
from app.simulation.trace import Trace, shifted, step_means

LEAST_WAIT_MS = 100
"""Shorter waits of the configuration count as this: a run's events stay within bounds."""
MAX_STEPS = 2_000_000
"""Steps of all VMs together: 40 times two weeks of 30 s, some two minutes of computing."""
MAX_POLLS = 12_000_000


@dataclass(frozen=True, slots=True)
class VmOptions:
    """What all VMs of a run have in common.

    Attributes:
        start: `fit`, `min` or `max`.
        trace_cpus: milli-CPU that 100 in a trace are; `trace_mem`: bytes, in a memory trace.
        mem: bytes in use where there is no memory trace.
    """

    min: Resources
    max: Resources
    slot_bytes: int
    start: str
    trace_cpus: int
    trace_mem: int
    mem: int


@dataclass(frozen=True, slots=True)
class RunOptions:
    """A run, read and checked.

    Attributes:
        vms: number of VMs; None: one a trace.
        shift_ms: how much further each VM is in its trace than the one before.
        node_cpu: milli-CPU; None: enough for all. `node_mem`: bytes.
    """

    vm: VmOptions
    control: ControlPlane
    vms: int | None
    shift_ms: int
    node_cpu: int | None
    node_mem: int | None
    step_ms: int


def build_options(given: Mapping[str, Value], settings: Settings) -> RunOptions:
    """The run that the given options and the configuration make together.

    Raises:
        UsageError: options that don't go together.
    """
    values = {option.name: option.read(option.default) for option in OPTIONS if option.default is not None}
    values |= given
    vm = _vm_options(values)
    unit = _unit(values, settings, vm.slot_bytes)
    rates = FailureRates(
        poll=_float(values, "poll-failures"),
        permit=_float(values, "permit-failures"),
        resize=_float(values, "resize-failures"),
        monitor=_float(values, "monitor-failures"),
        denial=_float(values, "denials"),
    )
    delays = Delays(
        permit=_int(values, "permit-delay"),
        monitor=_int(values, "monitor-delay"),
        resize=_int(values, "resize-delay"),
    )
    poll_ms = _optional(values, "poll-period") or round(settings.metrics.seconds_between_requests * 1000)
    control = ControlPlane(
        _core_config(settings, values),
        unit,
        max(poll_ms, LEAST_POLL_MS),
        delays,
        rates,
        _int(values, "seed"),
    )
    return RunOptions(
        vm,
        control,
        _optional(values, "vms"),
        _int(values, "shift"),
        _optional(values, "node-cpu"),
        _optional(values, "node-mem"),
        _int(values, "step"),
    )


def build_scenario(
    options: RunOptions, traces: Sequence[Trace], mem_trace: Trace | None
) -> tuple[Scenario, list[str]]:
    """The scenario of a run, and notes on how the traces were taken.

    The traces begin together, whatever their dates, and the run ends with the shortest of them.

    Raises:
        UsageError: the run would be too long to be played.
    """
    step = options.step_ms
    count = options.vms or len(traces)
    if count > MAX_VMS:
        raise UsageError(f"{count} VMs: at most {MAX_VMS}")
    steps = min(-(-(trace.end_ms - trace.begin_ms) // step) for trace in traces)
    _check_length(steps, count, options)
    notes = [note for trace in traces for note in _gap_notes(trace)]
    if len({trace.end_ms - trace.begin_ms for trace in traces}) > 1:
        notes.append("the traces are of different lengths: the run ends with the shortest")
    cpu = [
        [
            value / 100 * options.vm.trace_cpus / 1000
            for value in step_means(trace, trace.begin_ms, step, steps)
        ]
        for trace in traces
    ]
    mem, mem_notes = _memory(options.vm, traces[0], mem_trace, step, steps)
    vms = tuple(_plan_vm(number, options, cpu[number % len(cpu)], mem) for number in range(count))
    node = Amount(
        options.node_cpu or options.vm.max.cpu * count,
        options.node_mem or options.vm.max.mem * options.vm.slot_bytes * count,
    )
    return Scenario(step, steps, options.control, vms, node), notes + mem_notes


def _plan_vm(number: int, options: RunOptions, cpu: list[float], mem: list[float]) -> VmScenario:
    away = number * options.shift_ms // options.step_ms
    vm = options.vm
    plan = VmScenario(
        f"vm-{number + 1}", vm.min, vm.max, vm.max, vm.slot_bytes, shifted(cpu, away), shifted(mem, away)
    )
    match vm.start:
        case "min":
            return replace(plan, first=vm.min)
        case "max":
            return plan
        case _:
            return replace(plan, first=least_size(plan, options.control.unit, plan.cpu[0], plan.mem[0]))


def _memory(
    vm: VmOptions, trace: Trace, mem_trace: Trace | None, step: int, steps: int
) -> tuple[list[float], list[str]]:
    """Bytes a step; a memory trace is laid beside the first trace by its dates, if they meet."""
    if mem_trace is None:
        return [float(vm.mem)] * steps, []
    notes = _gap_notes(mem_trace)
    begin = trace.begin_ms
    if mem_trace.end_ms <= begin or mem_trace.begin_ms >= trace.end_ms:
        notes.append(f"{mem_trace.name} is of another time: it begins with the trace")
        begin = mem_trace.begin_ms
    if mem_trace.end_ms < begin + steps * step - step:
        notes.append(f"{mem_trace.name} ends before the trace: its last value holds")
    return [value / 100 * vm.trace_mem for value in step_means(mem_trace, begin, step, steps)], notes


def _gap_notes(trace: Trace) -> list[str]:
    gaps = trace.gaps_ms()
    if not gaps:
        return []
    longest = max(gaps) / 60_000
    what = "a gap" if len(gaps) == 1 else f"{len(gaps)} gaps"
    return [f"{trace.name} has {what}, at most {longest:g} min long: the value before it holds"]


def _check_length(steps: int, count: int, options: RunOptions) -> None:
    if steps * count > MAX_STEPS:
        raise UsageError(
            f"the trace is too long: {steps * count} steps, at most {MAX_STEPS}; give a longer --step"
        )
    polls = steps * options.step_ms // options.control.poll_ms * count
    if polls > MAX_POLLS:
        raise UsageError(f"too many polls: {polls}, at most {MAX_POLLS}; give a longer --poll-period")


def _vm_options(values: Mapping[str, Value]) -> VmOptions:
    slot = _int(values, "slot")
    least = resources(_int(values, "min-cpu"), _slots(values, "min-mem", slot))
    most = resources(_int(values, "max-cpu"), _slots(values, "max-mem", slot))
    if least.cpu > most.cpu:
        raise UsageError("min-cpu is above max-cpu")
    if least.mem > most.mem:
        raise UsageError("min-mem is above max-mem")
    return VmOptions(
        least,
        most,
        slot,
        str(values["start"]),
        _optional(values, "trace-cpus") or most.cpu,
        _optional(values, "trace-mem") or most.mem * slot,
        _int(values, "mem"),
    )


def _slots(values: Mapping[str, Value], name: str, slot: int) -> int:
    count, rest = divmod(_int(values, name), slot)
    if rest or not count:
        raise UsageError(f"{name} must be a whole number of slots of {mem_text(slot)}")
    return count


def _unit(values: Mapping[str, Value], settings: Settings, slot: int) -> Resources:
    unit = settings.scaling.compute_unit.resources()
    mem = _slots(values, "unit-mem", slot) if "unit-mem" in values else unit.mem
    return resources(_optional(values, "unit-cpu") or unit.cpu, mem)


def _core_config(settings: Settings, values: Mapping[str, Value]) -> CoreConfig:
    config = settings.core_config()
    targets = config.default_scaling_config
    load = values.get("load-target", targets.load_average_fraction_target)
    mem = values.get("mem-target", targets.memory_usage_fraction_target)

    def bounded(wait: Millis) -> Millis:
        return Millis(max(wait, LEAST_WAIT_MS))

    return CoreConfig(
        default_scaling_config=ScalingConfig(float(load), float(mem)),
        platform_retry_wait=bounded(config.platform_retry_wait),
        plugin_request_tick=bounded(config.plugin_request_tick),
        plugin_retry_wait=bounded(config.plugin_retry_wait),
        plugin_denied_retry_wait=bounded(config.plugin_denied_retry_wait),
        monitor_denied_downscale_cooldown=bounded(config.monitor_denied_downscale_cooldown),
        monitor_downscale_follow_up_wait=bounded(config.monitor_downscale_follow_up_wait),
        monitor_requested_upscale_valid_period=bounded(config.monitor_requested_upscale_valid_period),
        monitor_retry_wait=bounded(config.monitor_retry_wait),
    )


def _int(values: Mapping[str, Value], name: str) -> int:
    return int(values[name])


def _float(values: Mapping[str, Value], name: str) -> float:
    return float(values[name])


def _optional(values: Mapping[str, Value], name: str) -> int | None:
    value = values.get(name)
    return None if value is None else int(value)
