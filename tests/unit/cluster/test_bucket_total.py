from __future__ import annotations

import pytest

from app.cluster.bucket_total import check_total, format_resize, parse_resize, read_total
from app.errors import ConfigurationError


def test_a_resize_under_way_is_read_as_it_was_written() -> None:
    assert parse_resize(format_resize(16, 64)) == (16, 64)


@pytest.mark.parametrize("stored", ["16", "", ">", "16>", "a>b", "16>64>128", "12345>1", "16 > 64"])
def test_what_is_no_resize_is_none(stored: str) -> None:
    assert parse_resize(stored) is None


@pytest.mark.parametrize(
    ("stored", "total"), [("16", 16), ("2048", 2048), ("", None), ("x", None), ("١", None)]
)
def test_the_number_in_force_is_read_where_it_is_one(stored: str, total: int | None) -> None:
    assert read_total(stored) == total


def test_the_number_in_force_is_accepted() -> None:
    check_total(16, "16")


@pytest.mark.parametrize("stored", ["32", "rubbish\x1b[2J"])
def test_another_number_is_refused_with_the_command_that_changes_it(stored: str) -> None:
    with pytest.raises(ConfigurationError, match=r"vmscaler buckets resize 16") as refused:
        check_total(16, stored)
    assert "\x1b" not in str(refused.value)


@pytest.mark.parametrize("total", [16, 32])
def test_while_it_is_being_changed_every_number_is_refused(total: int) -> None:
    with pytest.raises(ConfigurationError, match=r"from 16 to 32: run `vmscaler buckets resize 32`"):
        check_total(total, "16>32")
