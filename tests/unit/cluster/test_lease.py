"""Lease arithmetic: limits of calls, fair share, identities."""

from __future__ import annotations

import pytest

from app.cluster.lease import (
    Lease,
    LeaseTimes,
    bucket_to_shed,
    buckets_to_try,
    fair_share,
    format_identity,
    parse_identity,
)

TIMES = LeaseTimes(duration_s=15, renew_every_s=2, give_up_after_s=10)
LEASE = Lease("b", 7, counted_from=100.0, times=TIMES)


@pytest.mark.parametrize(
    ("setting_s", "now", "limit"),
    [
        (2.0, 100.0, 2.0),
        (20.0, 100.0, 14.5),
        (0.0, 100.0, 14.5),
        (0.0, 109.0, 5.5),
        (9.0, 109.9, pytest.approx(4.6)),
    ],
)
def test_a_call_is_limited_by_its_setting_and_by_the_lease_less_half_a_second(
    setting_s: float, now: float, limit: float
) -> None:
    assert LEASE.call_limit(setting_s, now) == limit


@pytest.mark.parametrize("now", [114.5, 114.9, 115.0, 500.0])
def test_no_call_is_begun_with_less_than_half_a_second_left(now: float) -> None:
    late = Lease("b", 7, 100.0, LeaseTimes(duration_s=15, renew_every_s=2, give_up_after_s=14.99))
    assert late.call_limit(2.0, now) is None


def test_a_lease_without_renewal_is_given_up_before_it_ends() -> None:
    assert not LEASE.is_given_up(109.99)
    assert LEASE.is_given_up(110.0)
    assert LEASE.remaining(110.0) == 5.0
    assert LEASE.call_limit(1.0, 110.0) is None


@pytest.mark.parametrize(
    ("buckets", "workers", "share"),
    [(16, 1, 16), (16, 2, 8), (16, 3, 6), (16, 5, 4), (16, 20, 1), (16, 0, 16)],
)
def test_the_fair_share_is_rounded_up(buckets: int, workers: int, share: int) -> None:
    assert fair_share(buckets, workers) == share


def test_only_what_is_missing_to_the_share_is_tried() -> None:
    free = [f"b{index}" for index in range(8)]
    tried = buckets_to_try(free, held=1, share=4, agent_id="x")
    assert len(tried) == len(set(tried)) == 3
    assert set(tried) < set(free)
    assert buckets_to_try(free, held=4, share=4, agent_id="x") == []
    assert buckets_to_try(free, held=6, share=4, agent_id="x") == []


def test_two_agents_try_in_different_orders() -> None:
    free = [f"b{index}" for index in range(16)]
    assert buckets_to_try(free, 0, 16, "one") != buckets_to_try(free, 0, 16, "two")


def test_one_bucket_is_shed_at_a_time_and_none_without_surplus() -> None:
    assert bucket_to_shed({"a", "c", "b"}, 2) == "c"
    assert bucket_to_shed({"a", "b"}, 2) is None


@pytest.mark.parametrize(
    ("identity", "parts"),
    [
        ("worker-0_10.0.0.7", ("worker-0", "10.0.0.7")),
        ("a_b_c_10.0.0.7", ("a_b_c", "10.0.0.7")),
        ("w_fd00::1", ("w", "fd00::1")),
        ("w_[fd00::1]", ("w", "fd00::1")),
        ("w_fe80::1%eth0", ("w", "fe80::1%eth0")),
        ("worker-0", None),
        ("worker_host", None),
        ("_10.0.0.7", None),
        ("10.0.0.7", None),
        ("w_10.0.0.7 ", None),
        ("w_", None),
        ("", None),
    ],
)
def test_the_address_is_what_follows_the_last_underscore(
    identity: str, parts: tuple[str, str] | None
) -> None:
    assert parse_identity(identity) == parts


def test_an_identity_reads_back() -> None:
    assert parse_identity(format_identity("my_worker", "::1")) == ("my_worker", "::1")
