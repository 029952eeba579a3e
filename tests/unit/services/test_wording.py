import pytest

from app.core.resources import resources
from app.services.wording import (
    ago_text,
    bytes_text,
    count_text,
    cpu_text,
    moment_text,
    size_text,
    span_text,
    until_text,
)

NOON = 1_700_049_600_000  # 2023-11-15 12:00:00 UTC


@pytest.mark.parametrize(("milli", "text"), [(2000, "2.0"), (2500, "2.5"), (250, "0.25"), (1333, "1.333")])
def test_cpus_are_exact(milli: int, text: str) -> None:
    assert cpu_text(milli) == text


def test_sizes_name_their_units() -> None:
    assert size_text(resources(2500, 10), 1 << 30) == "2.5 CPU, 10 GiB"
    assert bytes_text(512 * 1024 * 1024) == "512 MiB"
    assert bytes_text(3 << 29) == "1.5 GiB"
    assert bytes_text(0) == "0 KiB"


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (-5, "0.0 s"),
        (400, "0.4 s"),
        (8_400, "8 s"),
        (119_000, "119 s"),
        (200_000, "3 min 20 s"),
        (180_000, "3 min"),
        (7_500_000, "2 h 5 min"),
        (4 * 86_400_000 + 3 * 3_600_000, "4 d 3 h"),
    ],
)
def test_a_span_is_told_in_the_unit_that_matters(ms: int, text: str) -> None:
    assert span_text(ms) == text


def test_moments_are_told_with_their_distance() -> None:
    assert ago_text(NOON - 3_000, NOON) == "3 s ago"
    assert ago_text(None, NOON) == "never"
    assert ago_text(NOON + 1, NOON) == "just now"
    assert until_text(NOON + 8_000, NOON) == "until 12:00:08 UTC (in 8 s)"
    assert until_text(NOON, NOON) == "until now"


def test_another_day_and_an_impossible_time_are_told_too() -> None:
    assert moment_text(NOON - 86_400_000, NOON) == "2023-11-14 12:00:00"
    assert moment_text(10**18, NOON) == f"{10**18} ms"


def test_counts_agree_with_their_noun() -> None:
    assert count_text(1, "VM") == "1 VM"
    assert count_text(0, "VM") == "0 VMs"
    assert count_text(2, "entry", "entries") == "2 entries"
