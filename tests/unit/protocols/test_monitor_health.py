"""The rhythm of health checks."""

from __future__ import annotations

import math

from app.protocols.monitor_health import HealthChecks


def checks(max_failures_s: float = 30.0) -> HealthChecks:
    return HealthChecks(100.0, max_failures_s=max_failures_s)


def test_the_first_check_comes_a_period_after_connecting() -> None:
    health = checks()
    assert health.next_at == 105.0
    assert not health.is_due(104.9)
    assert health.is_due(105.0)


def test_checks_do_not_overlap() -> None:
    health = checks()
    health.begin(105.0)
    assert health.next_at == math.inf
    assert not health.is_due(1000.0)


def test_of_several_missed_checks_one_is_made_up_and_then_the_grid_goes_on() -> None:
    health = checks()
    health.begin(105.0)
    health.succeed()
    assert health.next_at == 110.0
    health.begin(110.0)
    health.fail(127.0)
    assert health.is_due(127.0)
    health.begin(127.0)
    health.succeed()
    assert health.next_at == 130.0


def test_failures_in_a_row_end_it_when_a_later_one_comes_after_the_limit() -> None:
    health = checks(max_failures_s=10.0)
    assert health.fail(110.0) is False
    assert health.fail(120.0) is False
    assert health.fail(120.1) is True


def test_a_success_forgets_the_failures_before_it() -> None:
    health = checks(max_failures_s=10.0)
    health.fail(110.0)
    health.succeed()
    assert health.fail(130.0) is False
    assert health.fail(141.0) is True
