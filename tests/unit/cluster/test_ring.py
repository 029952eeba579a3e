"""Consistent hashing against recorded answers, and what a change of the set may move."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.cluster.ring import (
    ANGLES,
    BucketSet,
    bucket_name,
    bucket_names,
    choose_subset,
    fnv1a_64,
    parse_bucket_name,
)
from app.errors import InvalidInput

VECTORS = json.loads((Path(__file__).parents[2] / "data" / "hash.json").read_text())


@pytest.mark.parametrize("entry", VECTORS["owners"], ids=lambda entry: f"total-{entry['total']}")
def test_owners_agree_with_the_recorded_ones(entry: dict) -> None:
    buckets = BucketSet(entry["total"])
    assert entry["owners"]
    assert [buckets.owner(row["key"]) for row in entry["owners"]] == [row["owner"] for row in entry["owners"]]


def test_subsets_agree_with_the_recorded_ones() -> None:
    assert VECTORS["subsets"]
    for entry in VECTORS["subsets"]:
        assert choose_subset(entry["from"], entry["n"], entry["target"]) == entry["selected"]
        assert choose_subset(set(entry["from"]), entry["n"], entry["target"]) == entry["selected"]


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"", 0xCBF29CE484222325), (b"a", 0xAF63DC4C8601EC8C), (b"foobar", 0x85944171F73967E8)],
)
def test_the_hash_is_that_of_the_published_vectors(data: bytes, expected: int) -> None:
    assert fnv1a_64(data) == expected
    assert fnv1a_64(data[1:], fnv1a_64(data[:1])) == expected


def test_a_subset_not_smaller_than_the_set_is_all_of_it() -> None:
    assert choose_subset(["b", "a", "b"], 2, "x") == ["a", "b"]
    assert choose_subset(["b", "a"], 99, "x") == ["a", "b"]
    assert choose_subset([], 3, "x") == []
    assert choose_subset(["b", "a"], 0, "x") == []


def test_a_full_circle_still_gives_each_name_once() -> None:
    names = [f"n{index}" for index in range(ANGLES)]
    assert len(set(choose_subset(names, ANGLES - 1, "target"))) == ANGLES - 1


def test_more_names_than_angles_are_refused() -> None:
    with pytest.raises(InvalidInput):
        choose_subset([f"n{index}" for index in range(ANGLES + 1)], 1, "target")


def test_a_bucket_that_leaves_moves_only_its_own_keys() -> None:
    buckets = BucketSet(8)
    keys = [f"ns/vm-{index}" for index in range(300)]
    before = {key: buckets.owner(key) for key in keys}
    gone = buckets.names[3]
    buckets.update(name for name in buckets.names if name != gone)
    moved = {key for key in keys if buckets.owner(key) != before[key]}
    assert moved == {key for key in keys if before[key] == gone}
    assert moved
    assert gone not in {buckets.owner(key) for key in keys}


def test_an_empty_set_of_buckets_is_refused_and_the_old_one_stays() -> None:
    buckets = BucketSet(2)
    with pytest.raises(InvalidInput):
        buckets.update([])
    assert buckets.total == 2


@pytest.mark.parametrize("total", [0, -1, ANGLES + 1])
def test_an_impossible_number_of_buckets_is_refused(total: int) -> None:
    with pytest.raises(InvalidInput, match="must be 1 to 2048"):
        BucketSet(total)


def test_a_key_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(InvalidInput, match="not UTF-8"):
        BucketSet(4).owner("ns/\udcff")


def test_names_have_two_digits_at_least_and_read_back() -> None:
    assert bucket_names(2) == ["autoscaler-bucket-00-of-02", "autoscaler-bucket-01-of-02"]
    assert bucket_name(7, 128) == "autoscaler-bucket-07-of-128"
    assert parse_bucket_name("autoscaler-bucket-07-of-128") == (7, 128)


@pytest.mark.parametrize(
    "name",
    [
        "autoscaler-bucket-2-of-04",
        "autoscaler-bucket-04-of-04",
        "autoscaler-bucket-002-of-04",
        "Autoscaler-bucket-00-of-04",
        "autoscaler-bucket-00-of-04\n",
        "autoscaler-bucket-٠٠-of-04",
        "autoscaler-bucket-" + "0" * 5000 + "-of-04",
        "",
    ],
)
def test_a_name_spelt_otherwise_is_no_bucket(name: str) -> None:
    assert parse_bucket_name(name) is None
