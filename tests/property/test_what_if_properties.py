"""What holds for the figures of any run."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.resources import resources
from app.simulation.what_if_engine import run_scenario
from tests.what_if_builders import UNIT, a_control, a_scenario, a_vm

levels = st.lists(st.tuples(st.floats(0, 6), st.floats(0.01, 20), st.integers(1, 25)), min_size=1, max_size=6)


def spread(parts: list[tuple[float, float, int]]) -> tuple[list[float], list[float]]:
    cpu = [level for level, _, steps in parts for _ in range(steps)]
    return cpu, [mem for _, mem, steps in parts for _ in range(steps)]


@given(levels, st.sampled_from([1, 4, 16]), st.sampled_from([0.5, 0.9, 1.4]), st.integers(1, 40))
@settings(max_examples=40, deadline=None)
def test_what_is_allocated_lies_between_the_bounds_and_what_is_missing_is_wanted(
    parts: list[tuple[float, float, int]], first: int, target: float, poll_s: int
) -> None:
    cpu, mem = spread(parts)
    vm = a_vm(cpu, mem, first=resources(250 * first, first))
    control = a_control(load_target=target, poll_ms=poll_s * 1_000)
    (outcome,) = run_scenario(a_scenario(vm, control=control))
    figures = outcome.figures
    for hours, unit in ((figures.cpu, 0.25), (figures.mem, 1.0)):
        least = unit * figures.vm_ms / 3_600_000
        assert least - 1e-9 <= hours.allocated <= hours.fixed + 1e-9
        assert least - 1e-9 <= hours.clairvoyant <= hours.fixed + 1e-9
        assert 0 <= hours.missing <= hours.demand + 1e-9
        assert hours.allocated + hours.missing >= hours.demand - 1e-9
    assert figures.longest_ms <= figures.short_ms <= figures.vm_ms
    assert max(figures.short_cpu_ms, figures.short_mem_ms) <= figures.short_ms
    if figures.short_ms == 0:
        assert figures.cpu.allocated >= figures.cpu.clairvoyant - 1e-9
        assert figures.mem.allocated >= figures.mem.clairvoyant - 1e-9


@given(levels, st.integers(500, 9_000))
@settings(max_examples=15, deadline=None)
def test_a_node_is_never_given_out_beyond_its_capacity(
    parts: list[tuple[float, float, int]], node_cpu: int
) -> None:
    cpu, mem = spread(parts)
    vms = [a_vm(cpu, mem, first=UNIT), a_vm(cpu[::-1], mem[::-1], first=UNIT)]
    outcomes = run_scenario(a_scenario(*vms, node_cpu=node_cpu))
    for step in zip(*(outcome.timeline.cpu for outcome in outcomes), strict=True):
        assert sum(step) <= node_cpu + 1e-9
