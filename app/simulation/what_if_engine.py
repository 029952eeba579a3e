"""Run a scenario in virtual time: every VM's demand, polls, answers and waits, in the order of time."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush

from app.simulation.cost import Figures, figures_of
from app.simulation.scenario import Scenario, VmScenario
from app.simulation.virtual_peers import PermitBook
from app.simulation.virtual_vm import Due, Schedule, VirtualVm


@dataclass(slots=True)
class Timeline:
    """One VM's course, a value a step; lists of the same length.

    Attributes:
        load1: load average at the step's end.
        desired_cpu: milli-CPU desired at the step's end; `desired_mem`: bytes.
        cpu: mean milli-CPU allocated in the step; `mem`: mean bytes.
        short_ms: milliseconds of the step with less than needed.
    """

    load1: list[float]
    desired_cpu: list[int]
    desired_mem: list[int]
    cpu: list[float]
    mem: list[float]
    short_ms: list[int]


@dataclass(frozen=True, slots=True)
class VmOutcome:
    """What became of one VM."""

    plan: VmScenario
    figures: Figures
    timeline: Timeline


def run_scenario(scenario: Scenario) -> tuple[VmOutcome, ...]:
    """Play the scenario to its end; the outcomes are in the order of its VMs.

    A function of the scenario alone: the same one gives the same outcome.
    """
    queue: list[tuple[int, int, int]] = []
    """(moment, what comes due, number of the VM)."""
    book = PermitBook(scenario.capacity, scenario.vms)
    vms = [
        VirtualVm(plan, scenario.control, book, _scheduler(queue, number))
        for number, plan in enumerate(scenario.vms)
    ]
    timelines = [Timeline([], [], [], [], [], []) for _ in vms]
    poll_ms = scenario.control.poll_ms
    for number in range(len(vms)):
        # Polls are spread over the period, as a fleet's are.
        heappush(queue, (number * poll_ms // len(vms), Due.POLL, number))
    for step in range(scenario.steps):
        begin = step * scenario.step_ms
        for vm in vms:
            vm.want(begin, vm.plan.cpu[step], vm.plan.mem[step])
        before = [(vm.tally.cpu, vm.tally.mem, vm.tally.short_ms) for vm in vms]
        end = begin + scenario.step_ms
        _play(queue, vms, end, poll_ms)
        for vm, timeline, sums in zip(vms, timelines, before, strict=True):
            vm.settle(end)
            _note(timeline, vm, sums, scenario.step_ms)
    for vm in vms:
        vm.close(scenario.duration_ms)
    return tuple(
        VmOutcome(vm.plan, figures_of(scenario, vm.plan, vm.tally, vm.counts), timeline)
        for vm, timeline in zip(vms, timelines, strict=True)
    )


def _scheduler(queue: list[tuple[int, int, int]], number: int) -> Schedule:
    def schedule(at: int, due: Due) -> None:
        heappush(queue, (at, due, number))

    return schedule


def _play(queue: list[tuple[int, int, int]], vms: list[VirtualVm], end: int, poll_ms: int) -> None:
    """Everything that comes due before `end`."""
    while queue[0][0] < end:
        now, due, number = heappop(queue)
        if due == Due.POLL:
            heappush(queue, (now + poll_ms, Due.POLL, number))
            vms[number].poll(now)
        else:
            vms[number].come_due(now, Due(due))


def _note(timeline: Timeline, vm: VirtualVm, before: tuple[int, int, int], step_ms: int) -> None:
    cpu, mem, short_ms = before
    timeline.load1.append(vm.load.load1)
    timeline.desired_cpu.append(vm.desired.cpu)
    timeline.desired_mem.append(vm.desired.mem * vm.plan.slot_bytes)
    timeline.cpu.append((vm.tally.cpu - cpu) / step_ms)
    timeline.mem.append((vm.tally.mem - mem) / step_ms)
    timeline.short_ms.append(vm.tally.short_ms - short_ms)
