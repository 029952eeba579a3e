"""The newest token of a bucket fences out older ones."""

from __future__ import annotations

from app.core.fences import MAX_BUCKETS, BucketFences


def test_an_older_token_of_a_bucket_is_below_the_newest_and_changes_nothing() -> None:
    fences = BucketFences()
    assert fences.raise_to("a", 5) == 5
    assert fences.raise_to("a", 3) == 5
    assert fences.raise_to("a", 5) == 5
    assert fences.raise_to("a", 9) == 9


def test_tokens_of_different_buckets_are_not_compared() -> None:
    fences = BucketFences()
    fences.raise_to("a", 9)
    assert fences.raise_to("b", 2) == 2


def test_a_sender_who_names_no_bucket_is_not_fenced_by_buckets() -> None:
    fences = BucketFences()
    fences.raise_to("", 9)
    assert fences.raise_to("", 2) == 2


def test_buckets_unused_for_longest_are_forgotten_beyond_the_bound() -> None:
    fences = BucketFences()
    fences.raise_to("first", 9)
    for number in range(MAX_BUCKETS):
        fences.raise_to(f"bucket-{number}", 1)
    assert fences.raise_to("first", 2) == 2
