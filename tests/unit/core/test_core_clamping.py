from __future__ import annotations

import pytest

from app.core.clamping import clamp
from app.core.resources import Resources, resources


def both(value: int) -> Resources:
    return resources(value, value)


@pytest.mark.parametrize(
    ("current", "desired", "lower", "upper", "expected"),
    [
        (5, 9, None, None, 9),
        (5, 1, None, None, 1),
        (5, 1, 3, None, 3),
        (5, 9, None, 7, 7),
        (5, 1, 7, None, 5),
        (5, 9, None, 3, 5),
        (5, 1, 7, 3, 5),
        (5, 9, 9, 3, 5),
        (5, 5, 9, 1, 5),
        (5, 9, 9, None, 9),
        (5, 1, None, 1, 1),
    ],
)
def test_a_field_goes_as_far_as_its_bounds_allow_and_stays_if_they_are_on_the_wrong_side(
    current: int, desired: int, lower: int | None, upper: int | None, expected: int
) -> None:
    low = None if lower is None else both(lower)
    high = None if upper is None else both(upper)
    assert clamp(both(current), both(desired), lower=low, upper=high) == both(expected)


def test_fields_are_clamped_each_on_its_own() -> None:
    moved = clamp(resources(5, 5), resources(9, 1), lower=resources(0, 3), upper=resources(7, 0))
    assert moved == resources(7, 3)
