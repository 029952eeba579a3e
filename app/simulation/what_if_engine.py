"""Run a scenario in virtual time: every VM's demand, polls, answers and waits, in the order of time."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from heapq import heappop, heappush

from app.simulation.cost import Figures, Tally, figures_of
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
        short_ms: milliseconds of the step with less than needed; `short_cpu_ms`, `short_mem_ms`: of that one.
    """

    load1: list[float]
    desired_cpu: list[int]
    desired_mem: list[int]
    cpu: list[float]
    mem: list[float]
    short_ms: list[int]
    short_cpu_ms: list[int]
    short_mem_ms: list[int]


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
    timelines = [Timeline([], [], [], [], [], [], [], []) for _ in vms]
    poll_ms = scenario.control.poll_ms
    for number in range(len(vms)):
        # Polls are spread over the period, as a fleet's are.
        heappush(queue, (number * poll_ms // len(vms), Due.POLL, number))
    for step in range(scenario.steps):
        begin = step * scenario.step_ms
        for vm in vms:
            vm.want(begin, vm.plan.cpu[step], vm.plan.mem[step])
        before = [copy(vm.guest.tally) for vm in vms]
        end = begin + scenario.step_ms
        _play(queue, vms, book, end, poll_ms)
        for vm, timeline, sums in zip(vms, timelines, before, strict=True):
            vm.guest.settle(end)
            _note(timeline, vm, sums, scenario.step_ms)
    for vm in vms:
        vm.close(scenario.duration_ms)
    return tuple(
        VmOutcome(vm.plan, figures_of(scenario, vm.plan, vm.guest.tally, vm.counts), timeline)
        for vm, timeline in zip(vms, timelines, strict=True)
    )


def _scheduler(queue: list[tuple[int, int, int]], number: int) -> Schedule:
    def schedule(at: int, due: Due) -> None:
        heappush(queue, (at, due, number))

    return schedule


def _play(
    queue: list[tuple[int, int, int]], vms: list[VirtualVm], book: PermitBook, end: int, poll_ms: int
) -> None:
    """Everything that comes due before `end`."""
    while queue[0][0] < end:
        now, due, number = heappop(queue)
        version = book.version
        if due == Due.POLL:
            heappush(queue, (now + poll_ms, Due.POLL, number))
            vms[number].poll(now)
        else:
            vms[number].come_due(now, Due(due))
        if version != book.version:
            for other, vm in enumerate(vms):
                vm.node_changed(now, Due(due), is_first=other < number)


def _note(timeline: Timeline, vm: VirtualVm, before: Tally, step_ms: int) -> None:
    sums = vm.guest.tally
    timeline.load1.append(vm.guest.load.load1)
    timeline.desired_cpu.append(vm.desired.cpu)
    timeline.desired_mem.append(vm.desired.mem * vm.plan.slot_bytes)
    timeline.cpu.append((sums.cpu - before.cpu) / step_ms)
    timeline.mem.append((sums.mem - before.mem) / step_ms)
    timeline.short_ms.append(sums.short_ms - before.short_ms)
    timeline.short_cpu_ms.append(sums.short_cpu_ms - before.short_cpu_ms)
    timeline.short_mem_ms.append(sums.short_mem_ms - before.short_mem_ms)
