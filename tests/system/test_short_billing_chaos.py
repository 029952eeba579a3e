"""Billing by real workers that are killed; the long run is `make chaos-billing`."""

from __future__ import annotations

from tests.billing_chaos import run_chaos


def test_workers_that_are_killed_bill_each_second_once() -> None:
    wrong, summary = run_chaos(kills=2, seed=7, longest_s=0.8)
    assert wrong == [], summary
