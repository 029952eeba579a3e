"""Lines of the Prometheus text format, as our pages write them."""

from __future__ import annotations

import math

import pytest

from app.protocols.exposition import MAX_LABEL, escaped, head_text, labels_text, number_text


def test_no_value_of_a_label_leaves_its_quotes() -> None:
    assert labels_text([("a", 'x"} 1\nb\\'), ("c", "")]) == '{a="x\\"} 1\\nb\\\\",c=""}'
    assert labels_text([]) == ""


def test_a_long_value_is_cut_before_it_is_escaped() -> None:
    assert escaped('"' * (MAX_LABEL + 5)) == '\\"' * MAX_LABEL


def test_a_family_begins_with_two_lines_whatever_its_text_is() -> None:
    assert head_text("a_total", "counter", "one\ntwo\\") == (
        "# HELP a_total one two\\\\\n# TYPE a_total counter\n"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (2.0, "2"),
        (0.25, "0.25"),
        (-3.0, "-3"),
        (2**53 - 1, "9007199254740991"),
        (2.0**53, "9007199254740992.0"),
        (1e300, "1e+300"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
)
def test_numbers_are_written_as_prometheus_reads_them(value: float, text: str) -> None:
    assert number_text(value) == text
