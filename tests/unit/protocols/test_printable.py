import pytest

from app.protocols.printable import printable


def test_plain_text_is_left_as_it_is() -> None:
    assert printable("node full: 3 of 4 CPUs, größer 中") == "node full: 3 of 4 CPUs, größer 中"


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("a\x1b[31mred", "a\\x1b[31mred"),
        ("two\r\nlines", "two\\r\\nlines"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("bell\x07nul\x00c1\x9b", "bell\\x07nul\\x00c1\\x9b"),
        ("line\u2028sep\u2029", "line\\u2028sep\\u2029"),
        ("lone\ud800", "lone\\ud800"),
        ("tag\U000e0041", "tag\\U000e0041"),
    ],
)
def test_what_acts_on_a_terminal_is_escaped(hostile: str, shown: str) -> None:
    assert printable(hostile) == shown


def test_ten_kilobytes_are_cut_to_two_hundred_characters() -> None:
    shown = printable("x" * 10_240)
    assert len(shown) == 200
    assert shown.endswith("x…")


def test_a_cut_never_splits_an_escape() -> None:
    shown = printable("\x1b" * 300)
    assert shown == "\\x1b" * 49 + "…"


@pytest.mark.parametrize("text", ["", "a\nb", "\x1b" * 300, "x" * 201, "x" * 200])
def test_the_second_time_changes_nothing(text: str) -> None:
    assert printable(printable(text)) == printable(text)
    assert len(printable(text)) <= 200


def test_exactly_the_limit_is_not_cut() -> None:
    assert printable("x" * 200) == "x" * 200
    assert printable("abcdef", 3) == "ab…"
    assert printable("abc", 0) == ""
