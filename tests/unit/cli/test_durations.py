import pytest

from app.cli.durations import parse_duration_ms
from app.errors import UsageError


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("90s", 90_000),
        ("10m", 600_000),
        ("1h30m", 5_400_000),
        ("2d", 172_800_000),
        ("1d2h3m4s", 93_784_000),
        (" 5M ", 300_000),
        ("366d", 31_622_400_000),
    ],
)
def test_a_duration_is_the_sum_of_its_parts(text: str, ms: int) -> None:
    assert parse_duration_ms(text) == ms


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "write 90s"),
        ("90", "a unit is missing"),
        ("-5m", "write 90s"),
        ("1.5h", "write 90s"),
        ("5 m", "write 90s"),
        ("five", "write 90s"),
        ("٣m", "write 90s"),
        ("0s", "above zero"),
        ("30m1h", "largest unit first"),
        ("1m1m", "each once"),
        ("367d", "at most 366d"),
        ("9" * 5000 + "d", "write 90s"),
        ("1\x1b[2Jm", "\\x1b"),
    ],
)
def test_what_is_no_duration_is_refused_with_an_example(text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_duration_ms(text)
    assert says in str(caught.value)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 150
