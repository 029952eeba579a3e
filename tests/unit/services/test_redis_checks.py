"""What is said of a Redis that is not as it should be."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from app.errors import StoreUnavailable
from app.ports.probes import RedisFacts
from app.services.checkup import Finding, Verdict, run_checks
from app.services.plain_threads import PlainClock, PlainThreads
from app.services.redis_checks import redis_check

GOOD = RedisFacts(
    version="7.2.4",
    role="master",
    policy="noeviction",
    max_bytes=0,
    appends=True,
    saves="",
    lets_anyone_in=False,
    trips_ms=(0.3, 0.4, 0.5),
    clock_ms=2,
)


@dataclass
class Redis:
    facts: RedisFacts | None
    is_local: bool = False

    def look(self) -> RedisFacts:
        if self.facts is None:
            raise StoreUnavailable("redis here:6379", "invalid username-password pair or user is disabled.")
        return self.facts


def findings(redis: Redis) -> list[Finding]:
    return run_checks([redis_check(redis)], PlainClock(), PlainThreads())


def test_a_good_one_has_nothing_but_ok() -> None:
    found = findings(Redis(GOOD))
    assert {each.verdict for each in found} == {Verdict.OK}
    assert "version 7.2.4" in found[0].text


@pytest.mark.parametrize(
    ("change", "verdict", "told", "step"),
    [
        ({"version": "6.0.16"}, Verdict.PROBLEM, "version 6.0.16", "6.2 or later"),
        ({"version": None}, Verdict.WARNING, "does not tell its version", "INFO"),
        ({"role": "slave"}, Verdict.PROBLEM, "read-only replica", "redis.url"),
        ({"lets_anyone_in": True}, Verdict.WARNING, "no password is asked for", "redis.passwordFile"),
        (
            {"policy": "allkeys-lru", "max_bytes": 1 << 30},
            Verdict.PROBLEM,
            "allkeys-lru, at most 1 GiB",
            "noeviction",
        ),
        ({"policy": None}, Verdict.WARNING, "not told", "noeviction"),
        ({"appends": False, "saves": "3600 1"}, Verdict.WARNING, "snapshots only (3600 1)", "appendonly yes"),
        ({"appends": False}, Verdict.WARNING, "no append-only file", "appendonly yes"),
        ({"appends": None}, Verdict.WARNING, "not told", "appendonly yes"),
        ({"trips_ms": (30.0, 40.0, 900.0)}, Verdict.WARNING, "takes 40.0 ms, at most 900.0 ms", "zone"),
        ({"trips_ms": (600.0, 700.0)}, Verdict.PROBLEM, "takes 650.0 ms", "leases"),
        ({"clock_ms": 10_000}, Verdict.PROBLEM, "10.0 s ahead of ours", "chrony"),
    ],
)
def test_what_is_wrong_is_told_with_what_to_do(
    change: dict[str, object], verdict: Verdict, told: str, step: str
) -> None:
    found = findings(Redis(replace(GOOD, **change)))  # type: ignore[arg-type]
    (bad,) = [each for each in found if each.verdict is not Verdict.OK]
    assert bad.verdict is verdict
    assert told in bad.text
    assert step in bad.next_step


def test_no_password_is_no_matter_where_nobody_else_gets() -> None:
    found = findings(Redis(replace(GOOD, lets_anyone_in=True), is_local=True))
    assert {each.verdict for each in found} == {Verdict.OK}


def test_a_wrong_password_is_a_problem() -> None:
    (found,) = findings(Redis(None))
    assert found.verdict is Verdict.PROBLEM
    assert "invalid username-password pair" in found.text
    assert "redis.passwordFile" in found.next_step
