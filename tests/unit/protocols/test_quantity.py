"""Kubernetes quantities."""

from __future__ import annotations

import math

import pytest

from app.errors import InvalidInput
from app.protocols.quantity import format_milli_cpu, parse_bytes, parse_milli_cpu


@pytest.mark.parametrize(
    ("spelling", "milli"),
    [
        (2, 2000), (0, 0), (1.5, 1500), (0.25, 250), (1e3, 1_000_000), ("2", 2000), ("250m", 250),
        ("1.5", 1500),
        ("+1", 1000), ("-0", 0), (".5", 500), ("5.", 5000), ("1e3", 1_000_000), ("1E3", 1_000_000),
        ("1e-3", 1), ("1e+1", 10_000), ("1k", 1_000_000), ("1Ki", 1_024_000), ("0.1", 100), ("007", 7000),
        ("100000000n", 100), ("1n", 1), ("1u", 1), ("1000001n", 2), ("1.0001", 1001), ("250.5m", 251),
    ],
)  # fmt: skip
def test_every_legal_spelling_of_a_cpu_amount_is_read_exactly_and_rounded_up(
    spelling: object, milli: int
) -> None:
    assert parse_milli_cpu(spelling) == milli


@pytest.mark.parametrize(
    ("spelling", "size"),
    [
        ("1Ki", 2**10), ("1Mi", 2**20), ("1Gi", 2**30), ("1Ti", 2**40), ("1Pi", 2**50), ("7Ei", 7 * 2**60),
        ("1k", 10**3), ("1M", 10**6), ("1G", 10**9), ("1T", 10**12), ("1P", 10**15), ("9E", 9 * 10**18),
        ("1E0", 1), ("1.5Gi", 3 * 2**29), ("0.3Ki", 308), ("128974848000m", 128974848), ("1m", 1), ("1n", 1),
        (1073741824, 2**30), (1.5e9, 1_500_000_000), ("9223372036854775807", 2**63 - 1), ("0e64", 0),
    ],
)  # fmt: skip
def test_every_suffix_of_bytes_is_read_exactly(spelling: object, size: int) -> None:
    assert parse_bytes(spelling) == size


@pytest.mark.parametrize(
    "spelling",
    [
        "", " ", "m", ".", "+", "1 ", " 1", "1 Ki", "1K", "1ki", "1KI", "1g", "1e", "1e3Ki", "1e3m", "1.2.3",
        "0x10",
        "1_000", "1,5", "NaN", "Inf", "-1", "-1m", "--1", "١", "1\n", "1Kim", "1mi", "1e1.5", "1e65", "1e-65",
        "1" * 65, "10E", "8Ei", "9223372036854775808", "1e99999999999999999999", -1, 2**63, 10**400, -0.5,
        math.nan, math.inf, -math.inf, 1e300, True, False, None, [], {}, b"1",
    ],
)  # fmt: skip
def test_what_is_no_size_is_refused_with_the_fields_path(spelling: object) -> None:
    for parse in (parse_milli_cpu, parse_bytes):
        with pytest.raises(InvalidInput) as caught:
            parse(spelling, where=".spec.guest")
        assert caught.value.where == ".spec.guest"


def test_the_binary_bound_is_the_last_value_that_fits() -> None:
    assert parse_milli_cpu(2**63 - 1) == (2**63 - 1) * 1000


def test_whole_cpus_are_written_as_numbers_and_fractions_as_strings() -> None:
    assert [format_milli_cpu(milli) for milli in (0, 2000, 250, 1500, 1)] == [0, 2, "250m", "1500m", "1m"]
