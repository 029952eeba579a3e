"""The metrics page of a VM: what is believed and what is not."""

from __future__ import annotations

import pytest

from app.errors import InvalidInput
from app.protocols.prometheus_text import MAX_LOOKALIKES, MAX_PAGE_BYTES, read_sample

GIB = 2**30
KERNEL = 100 * 2**20
NODE_MEMORY = b"node_memory_MemTotal_bytes 4294967296\nnode_memory_MemAvailable_bytes 3221225472\n"
REST = b"node_load5 0.4\n" + NODE_MEMORY


def page(load1: bytes) -> bytes:
    return load1 + b"\n" + REST


def problem(text: bytes, prefix: str = "node_") -> tuple[str, str]:
    with pytest.raises(InvalidInput) as caught:
        read_sample(text, prefix)
    return caught.value.where, caught.value.problem


def test_memory_in_use_is_total_less_available_and_the_kernels_share() -> None:
    sample = read_sample(page(b"node_load1 0.5"), "node_")
    assert (sample.load1, sample.load5, sample.mem_bytes) == (0.5, 0.4, GIB + KERNEL)


@pytest.mark.parametrize("prefix", [b"node_", b"host_"])
@pytest.mark.parametrize("names", [(b"MemTotal", b"MemAvailable"), (b"total", b"available")])
def test_both_families_of_memory_names_are_read_under_either_prefix(
    prefix: bytes, names: tuple[bytes, bytes]
) -> None:
    total, available = (prefix + b"memory_" + name + b"_bytes" for name in names)
    text = prefix + b"load1 1\n" + prefix + b"load5 2\n" + total + b" 3e9\n" + available + b" 1e9\n"
    assert read_sample(text, prefix.decode()).mem_bytes == 2e9 + KERNEL


@pytest.mark.parametrize(("prefix", "used"), [("node_", 3.0), ("host_", 1.0)])
def test_where_a_page_has_both_pairs_the_prefix_own_names_count(prefix: str, used: float) -> None:
    lines = ["load1 1", "load5 1", "memory_total_bytes 2", "memory_available_bytes 1"]
    lines += ["memory_MemTotal_bytes 5", "memory_MemAvailable_bytes 2"]
    text = "".join(f"{prefix}{line}\n" for line in lines).encode()
    assert read_sample(text, prefix).mem_bytes == used + KERNEL


@pytest.mark.parametrize(
    "line",
    [
        b"node_load1 0.5",
        b"node_load1\t0.5",
        b"  \tnode_load1   0.5  ",
        b"node_load1 0.5\r",
        b"node_load1 5e-1",
        b"node_load1 +.5E0",
        b"node_load1 0.5 1700000000000",
        b"node_load1 0.5 -1",
        b"node_load1 0.5 1.7e0"[:-5],
        b"node_load1{} 0.5",
        b'node_load1{a="b",c="d",} 0.5',
        b'node_load1 {a="b"} 0.5 17',
        b'node_load1{a="}"}0.5',
        b'node_load1{a="x\\"} 9 # {",b=" 7 "} 0.5',
        b'node_load1{a="\\\\"} 0.5',
        b'node_load1{a="\xff\xfe"} 0.5',
        b"# HELP node_load1 9\n# TYPE node_load1 gauge\nnode_load1 0.5",
        b"node_load15 9\nnode_load1 0.5",
        b"node_load1_max 9\nxnode_load1 9\nnode_load1 0.5",
        b'other{a="node_load1 9"} 9\nnode_load1 0.5',
        b'other{a="\\nnode_load1 9"} 9\nnode_load1 0.5',
        b"#node_load1 9\nnode_load1 0.5",
        b'node_load1{a="1"} 0.5\nnode_load1{a="2"} 9',
        b" node_load1 0.5\nnode_load1 9",
    ],
)
def test_a_series_is_found_behind_whatever_may_stand_around_it(line: bytes) -> None:
    assert read_sample(page(line), "node_").load1 == 0.5


@pytest.mark.parametrize(
    ("line", "word"),
    [
        (b"", "missing"),
        (b"# node_load1 1", "missing"),
        (b"node_load15 1", "missing"),
        (b"host_load1 1", "missing"),
        (b"node_load1 NaN", "finite"),
        (b"node_load1 nan", "finite"),
        (b"node_load1 Inf", "finite"),
        (b"node_load1 +Inf", "finite"),
        (b"node_load1 -Inf", "finite"),
        (b"node_load1 1e999", "finite"),
        (b"node_load1 -1", "negative"),
        (b"node_load1 -0.001", "negative"),
        (b"node_load1 ", "malformed"),
        (b"node_load1{} ", "malformed"),
        (b"node_load1 1_0", "number"),
        (b"node_load1 0x1p3", "number"),
        (b"node_load1 1,5", "number"),
        (b"node_load1 none", "number"),
        (b"node_load1 1 2 3", "malformed"),
        (b"node_load1 1 x", "malformed"),
        (b'node_load1{a="b 1', "malformed"),
        (b'node_load1{a="b\\"} 1', "malformed"),
        (b"node_load1{a=} b} 1", "malformed"),
        (b"node_load1 " + b"1" * 65, "malformed"),
        (b"node_load1 1.\xd9\xa1", "number"),
        (b"node_load1\x001", "missing"),
        (b"node_load1\r", "missing"),
        (b"node_load1 NaN\nnode_load1 1", "finite"),
    ],
)
def test_what_is_no_load_is_an_error_that_names_the_metric(line: bytes, word: str) -> None:
    where, text = problem(page(line))
    assert where == "node_load1"
    assert word in text


@pytest.mark.parametrize("cut", range(len(NODE_MEMORY)))
def test_a_page_that_was_cut_anywhere_is_never_believed(cut: int) -> None:
    whole = b"node_load1 0.5\nnode_load5 0.4\n" + NODE_MEMORY
    where, _ = problem(whole[: len(whole) - len(NODE_MEMORY) + cut])
    assert where.startswith("node_memory_")


def test_a_value_at_the_end_of_the_page_without_a_line_feed_is_called_cut_off() -> None:
    assert problem(REST + b"node_load1 0.1") == ("node_load1", "cut off: the page ends within its line")
    assert problem(REST + b"node_load1") == ("node_load1", "missing")


def test_negative_zero_is_zero() -> None:
    assert str(read_sample(page(b"node_load1 -0"), "node_").load1) == "0.0"


def test_available_above_total_is_an_error_and_equal_is_not() -> None:
    loads = b"node_load1 1\nnode_load5 1\nnode_memory_MemTotal_bytes 5\nnode_memory_MemAvailable_bytes "
    assert problem(loads + b"6\n")[0] == "node_memory_MemAvailable_bytes"
    assert read_sample(loads + b"5\n", "node_").mem_bytes == KERNEL


@pytest.mark.parametrize(
    ("lines", "missing"),
    [
        (b"", "node_memory_MemTotal_bytes"),
        (b"node_memory_MemTotal_bytes 1\n", "node_memory_MemAvailable_bytes"),
        (b"node_memory_MemAvailable_bytes 1\n", "node_memory_MemTotal_bytes"),
        (b"node_memory_total_bytes 1\n", "node_memory_available_bytes"),
        (b"node_memory_MemTotal_bytes 1\nnode_memory_available_bytes 1\n", "node_memory_total_bytes"),
    ],
)
def test_half_a_pair_of_memory_names_is_missing_the_other_half(lines: bytes, missing: str) -> None:
    assert problem(b"node_load1 1\nnode_load5 1\n" + lines) == (missing, "missing")


def test_the_missing_five_minute_load_is_named() -> None:
    assert problem(b"node_load1 1\n" + NODE_MEMORY) == ("node_load5", "missing")


def test_a_page_of_one_mebibyte_is_read_and_a_longer_one_is_not() -> None:
    full = page(b"node_load1 0.5")
    full += b"#" * (MAX_PAGE_BYTES - len(full) - 1) + b"\n"
    assert read_sample(full, "node_").load1 == 0.5
    assert problem(full + b"\n")[0] == "page"


def test_a_page_made_of_lookalikes_is_given_up() -> None:
    assert "look like" in problem(b"node_load15 1\n" * (MAX_LOOKALIKES + 1))[1]


def test_a_machine_without_memory_is_not_believed() -> None:
    page = b"node_load1 1\nnode_load5 1\nnode_memory_MemTotal_bytes 0\nnode_memory_MemAvailable_bytes 0\n"
    with pytest.raises(InvalidInput, match="node_memory_MemTotal_bytes: is zero"):
        read_sample(page, "node_")
