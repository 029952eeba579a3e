"""The guest's memory rule."""

from __future__ import annotations

import pytest

from app.protocols.memory_policy import MIB, MemoryPolicy, threshold_bytes


def policy(samples: list[int], total: int = 4096 * MIB) -> MemoryPolicy:
    rule = MemoryPolicy(total)
    for number, sample in enumerate(samples):
        rule.record(number / 10, sample)
    return rule


def test_the_threshold_is_85_percent_of_what_the_kernel_leaves() -> None:
    assert threshold_bytes(1100 * MIB) == 850 * MIB
    assert threshold_bytes(100 * MIB) == threshold_bytes(0) == 0


@pytest.mark.parametrize(
    ("average_mib", "is_allowed"), [(749, True), (750, True), (751, False), (5000, False)]
)
def test_a_downscale_needs_the_average_and_100_mib_below_the_threshold(
    average_mib: int, is_allowed: bool
) -> None:
    verdict = policy([average_mib * MIB] * 5).judge_downscale(0.5, 1100 * MIB)
    assert (verdict.is_allowed, verdict.is_failure) == (is_allowed, False)
    assert "850 MiB" in verdict.status


def test_the_average_is_that_of_the_last_five_samples() -> None:
    rule = policy([9000 * MIB] * 3 + [700 * MIB, 800 * MIB, 750 * MIB, 740 * MIB, 760 * MIB])
    assert rule.judge_downscale(0.8, 1100 * MIB).is_allowed
    rule.record(0.9, 751 * MIB + 100 * MIB)
    assert not rule.judge_downscale(0.9, 1100 * MIB).is_allowed


@pytest.mark.parametrize("count", range(5))
def test_a_downscale_is_refused_until_enough_samples_came(count: int) -> None:
    verdict = policy([0] * count).judge_downscale(0.5, 4096 * MIB)
    assert (verdict.is_allowed, verdict.is_failure) == (False, False)
    assert f"{count} of 5" in verdict.status


def test_samples_that_stopped_are_a_failure_not_a_verdict() -> None:
    rule = policy([0] * 5)
    assert rule.judge_downscale(5.4, 4096 * MIB).is_allowed
    verdict = rule.judge_downscale(5.5, 4096 * MIB)
    assert (verdict.is_allowed, verdict.is_failure) == (False, True)


def test_memory_is_asked_for_above_the_threshold_once_a_second_at_most() -> None:
    rule = MemoryPolicy(1100 * MIB)
    assert rule.threshold == 850 * MIB
    assert not rule.record(0.0, 850 * MIB)
    asked = [at for at in range(1, 31) if rule.record(at / 10, 850 * MIB + 1)]
    assert asked == [1, 11, 21]


def test_a_resize_moves_the_threshold() -> None:
    rule = MemoryPolicy(1100 * MIB)
    rule.resize(2100 * MIB)
    assert rule.threshold == 1700 * MIB
    assert not rule.record(0.0, 1700 * MIB)
    assert rule.record(0.1, 1701 * MIB)
