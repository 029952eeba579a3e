"""Counters, histograms and readings, as they stand on a page."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from app.protocols.guest_metrics import GUEST_FAMILIES
from app.protocols.metric_families import Counter, Family, Histogram, Reading


def test_every_series_of_a_counter_is_there_from_the_start() -> None:
    counter = Counter("polls_total", "polls", {"result": ("ok", "failed")})
    assert counter.text_now().splitlines() == [
        "# HELP polls_total polls",
        "# TYPE polls_total counter",
        'polls_total{result="failed"} 0',
        'polls_total{result="ok"} 0',
    ]


def test_what_is_in_no_closed_set_makes_no_series_of_its_own() -> None:
    counter = Counter("polls_total", "polls", {"reason": ("timeout",), "kind": ("a", "b")})
    for number in range(1_000):
        counter.add(f"10.0.0.{number}: connection refused", "a")
    counter.add("timeout")
    counter.add("timeout", "a", "one too many")
    samples = [line for line in counter.text_now().splitlines() if not line.startswith("#")]
    assert sorted(samples) == [
        'polls_total{reason="other",kind="a"} 1000',
        'polls_total{reason="timeout",kind="a"} 1',
        'polls_total{reason="timeout",kind="b"} 0',
        'polls_total{reason="timeout",kind="other"} 1',
    ]


def test_a_counter_never_goes_down() -> None:
    counter = Counter("cpus_total", "CPUs")
    counter.add(by=0.25)
    counter.add(by=-1)
    assert counter.value() == 0.25


def test_a_histogram_counts_each_value_below_its_bound_and_all_above() -> None:
    histogram = Histogram("took_seconds", "time", {"end": ("done",)}, bounds=(0.1, 1.0))
    for value in (0.1, 0.5, 7.0, -3.0):
        histogram.observe(value, "done")
    assert histogram.text_now().splitlines()[2:] == [
        'took_seconds_bucket{end="done",le="0.1"} 2',
        'took_seconds_bucket{end="done",le="1"} 3',
        'took_seconds_bucket{end="done",le="+Inf"} 4',
        'took_seconds_sum{end="done"} 7.6',
        'took_seconds_count{end="done"} 4',
    ]
    assert histogram.count("done") == 4


def test_a_histogram_without_values_is_not_on_the_page() -> None:
    assert Histogram("took_seconds", "time").text_now() == ""


def test_a_reading_that_is_no_longer_known_leaves_the_page() -> None:
    reading = Reading("waiting", "tasks", {"queue": ("shared",)})
    reading.set(3, "shared")
    reading.set(2, "shared")
    assert reading.text_now().splitlines()[2:] == ['waiting{queue="shared"} 2']
    reading.clear()
    assert (reading.text_now(), reading.value("shared")) == ("", None)


def test_a_parser_reads_back_what_was_told_even_of_odd_values() -> None:
    reading = Reading("odd", "back\\slash and\nline", {"name": ('a"b\\c\nd',)})
    reading.set(1e300, 'a"b\\c\nd')
    (family,) = text_string_to_metric_families(reading.text_now())
    (sample,) = family.samples
    assert (sample.labels, sample.value) == ({"name": 'a"b\\c\nd'}, 1e300)


def test_a_family_whose_samples_stand_elsewhere_has_none_of_its_own() -> None:
    assert Family("size", "gauge", "sizes", {"name": ()}).text_now() == ""


def test_the_guest_s_families_have_names_of_their_own_and_their_kind_s_ending() -> None:
    names = [family.name for family in GUEST_FAMILIES]
    assert len(set(names)) == len(names)
    assert all(name.startswith("vmscaler_guest_") for name in names)
    assert all(family.name.endswith("_total") == (family.kind == "counter") for family in GUEST_FAMILIES)
