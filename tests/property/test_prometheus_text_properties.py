"""The metrics page: total against rubbish, exact against a page that was built."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from app.errors import InvalidInput
from app.protocols.prometheus_text import read_sample

NAMES = [
    b"node_load1",
    b"node_load5",
    b"node_load15",
    b"node_memory_MemTotal_bytes",
    b"node_memory_MemAvailable_bytes",
    b"node_memory_total_bytes",
    b"node_memory_available_bytes",
]
PIECES = [
    *NAMES,
    b"\n",
    b"\r\n",
    b" ",
    b"\t",
    b"{",
    b"}",
    b'"',
    b"\\",
    b"#",
    b"1",
    b"2e3",
    b"NaN",
    b"-1",
    b"=",
    b"a",
]
AMOUNTS = st.floats(0, 1e15)
LABELS = st.text(st.characters(codec="utf-8", exclude_characters='\n"\\'), max_size=20)


@given(st.one_of(st.binary(max_size=200), st.lists(st.sampled_from(PIECES), max_size=60).map(b"".join)))
def test_any_page_gives_a_finite_sample_or_a_declared_error(page: bytes) -> None:
    try:
        sample = read_sample(page, "node_")
    except InvalidInput:
        return
    assert all(0 <= value < math.inf for value in (sample.load1, sample.load5, sample.mem_bytes))


@given(
    st.permutations(NAMES[:5]),
    st.lists(AMOUNTS, min_size=5, max_size=5),
    LABELS,
    st.sampled_from(["\n", "\r\n"]),
)
def test_a_built_page_reads_back_exactly(
    order: list[bytes], amounts: list[float], label: str, end: str
) -> None:
    values = dict(zip(order, amounts, strict=True))
    # A machine has some memory, and no more of it is available.
    available, total = sorted([values[NAMES[3]], values[NAMES[4]]])
    values[NAMES[3]], values[NAMES[4]] = total + 1, available
    page = "".join(
        f'{name.decode()}{{l="{label}"}} {value!r}{end}' for name, value in values.items()
    ).encode()
    sample = read_sample(page, "node_")
    assert (sample.load1, sample.load5) == (values[NAMES[0]], values[NAMES[1]])
    assert sample.mem_bytes == values[NAMES[3]] - values[NAMES[4]] + 100 * 2**20
