"""Quantities: exact against rational arithmetic, total against rubbish."""

from __future__ import annotations

import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from app.errors import InvalidInput
from app.protocols.quantity import format_milli_cpu, parse_bytes, parse_milli_cpu

SCALES = {
    "": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000),
    "k": Fraction(1000),
    "M": Fraction(10**6), "Ki": Fraction(2**10), "Mi": Fraction(2**20), "e3": Fraction(1000),
    "E-2": Fraction(1, 100),
}  # fmt: skip


@given(st.integers(0, 10**9), st.text("0123456789", max_size=6), st.sampled_from(sorted(SCALES)))
def test_a_quantity_is_its_rational_value_rounded_up(whole: int, tail: str, suffix: str) -> None:
    exact = Fraction(f"{whole}.{tail or '0'}") * SCALES[suffix]
    spelling = f"{whole}.{tail}{suffix}"
    assert parse_bytes(spelling) == math.ceil(exact)
    assert parse_milli_cpu(spelling) == math.ceil(exact * 1000)


@given(st.integers(0, 10**7))
def test_what_is_written_reads_back_the_same(milli: int) -> None:
    assert parse_milli_cpu(format_milli_cpu(milli)) == milli


@given(
    st.one_of(
        st.text(),
        st.text("0123456789.eEKMGimnu+-", max_size=20),
        st.floats(),
        st.integers(),
        st.booleans(),
        st.none(),
    )
)
def test_anything_is_either_a_size_or_refused(value: object) -> None:
    try:
        size = parse_bytes(value)
    except InvalidInput:
        return
    assert 0 <= size <= 2**63 - 1
