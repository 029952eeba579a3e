"""Properties of the simulated load average."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.simulation.load import PATIENCE_S, PIECE_CPU_S, Load, advance, settled

_CPUS = st.floats(0, 64, allow_subnormal=False)
_STEPS = st.floats(0, 2_000, allow_subnormal=False)
_LOADS = st.builds(
    Load, st.floats(0, 200), st.floats(0, 200), st.floats(0, 200), st.floats(0, 2_000), st.just(0.0)
)


@given(load=_LOADS, first=_STEPS, second=_STEPS, demand=_CPUS, granted=_CPUS)
def test_one_long_step_gives_what_two_short_ones_give(
    load: Load, first: float, second: float, demand: float, granted: float
) -> None:
    whole = advance(load, first + second, demand, granted)
    parts = advance(advance(load, first, demand, granted), second, demand, granted)
    for name in ("load1", "load5", "load15", "backlog"):
        assert getattr(whole, name) == pytest.approx(getattr(parts, name), rel=1e-5, abs=1e-5)


@given(load=_LOADS, step=_STEPS, demand=_CPUS, granted=_CPUS)
def test_averages_stay_between_what_was_and_what_runs(
    load: Load, step: float, demand: float, granted: float
) -> None:
    after = advance(load, step, demand, granted)
    most = max(load.backlog, PATIENCE_S * demand) / PIECE_CPU_S + max(demand, granted)
    assert -1e-9 <= after.load1 <= max(load.load1, most) + 1e-6
    assert 0 <= after.backlog <= max(load.backlog, PATIENCE_S * demand) + 1e-6
    assert after.busy <= granted * step + 1e-6


@given(step=_STEPS, demand=_CPUS)
def test_a_demand_that_is_met_keeps_its_load(step: float, demand: float) -> None:
    after = advance(settled(demand), step, demand, demand + 1)
    assert after.load1 == pytest.approx(demand, abs=1e-6)
    assert after.backlog == 0


@given(load=_LOADS, demand=_CPUS)
def test_a_granted_surplus_drains_the_queue_and_the_load_settles_at_the_demand(
    load: Load, demand: float
) -> None:
    after = advance(load, 20_000, demand, demand + 1)
    assert after.backlog == 0
    assert after.load1 == pytest.approx(demand, abs=1e-3)


@given(demand=st.floats(0.1, 16), seconds=st.floats(1, 120))
def test_a_jump_of_the_demand_rises_as_the_kernels_mean_of_a_minute(demand: float, seconds: float) -> None:
    after = advance(Load(), seconds, demand, demand)
    assert after.load1 == pytest.approx(demand * (1 - math.exp(-seconds / 60)))
    assert after.load1 >= after.load5 >= after.load15


@given(demand=st.floats(0.2, 16), step=st.floats(0.1, 600))
def test_less_granted_means_no_less_load(demand: float, step: float) -> None:
    starved = advance(Load(), step, demand, demand / 2)
    content = advance(Load(), step, demand, demand)
    assert starved.backlog > 0
    assert starved.load1 >= content.load1 - content.load1 * 0.5
    later = advance(starved, 600, demand, demand / 2)
    assert later.load1 > demand
