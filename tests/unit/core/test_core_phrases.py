from __future__ import annotations

import pytest

from app.core.phrases import cpu_text, mem_text, number_text, span_text, until_text


@pytest.mark.parametrize(
    ("milli", "shown"),
    [
        (0, "0"),
        (1, "0.001"),
        (250, "0.25"),
        (2_000, "2"),
        (10_500, "10.5"),
        (-750, "-0.75"),
        (10**30, "1" + 27 * "0"),
    ],
)
def test_cpus_are_exact(milli: int, shown: str) -> None:
    assert cpu_text(milli) == shown


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 MiB"),
        (2**30, "1 GiB"),
        (5 * 2**28, "1.25 GiB"),
        (2**29, "512 MiB"),
        (2**30 + 2**27, "1152 MiB"),
        (2**20, "1 MiB"),
    ],
)
def test_memory_is_in_the_unit_that_says_it_exactly(count: int, shown: str) -> None:
    assert mem_text(count) == shown


def test_times_are_exact_and_in_utc() -> None:
    assert span_text(4_200) == "4.2 s"
    assert until_text(1_700_000_000_000, 1_699_999_995_800) == "until 22:13:20 UTC (4.2 s from now)"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0.00"), (4.444, "4.44"), (0.003, "0.003"), (1e20, "1e+20"), (float("inf"), "inf")],
)
def test_numbers_have_two_decimals_or_three_digits(value: float, shown: str) -> None:
    assert number_text(value) == shown
