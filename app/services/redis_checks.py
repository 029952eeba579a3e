"""Whether a Redis is fit to hold a fleet's state (docs/redis.md)."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from app.ports.probes import RedisFacts, RedisProbe
from app.services.checkup import Check, Finding, ok, problem, warning
from app.services.clock_checks import judge_clock
from app.services.wording import bytes_text

LEAST_VERSION = (6, 2)
"""The oldest that our scripts run on."""

SLOW_MS, TOO_SLOW_MS = 20.0, 500.0
"""Of a round trip: a fenced write of each batch waits for one, and a lease's renewal has 5 s."""

_REACH = "look at redis.url, redis.passwordFile and the network between here and there (docs/redis.md)"


def redis_check(probe: RedisProbe) -> Check:
    """The check of one Redis."""
    return Check("Redis", lambda: _look(probe), _REACH)


def _look(probe: RedisProbe) -> Iterator[Finding]:
    facts = probe.look()
    yield _version(facts)
    yield _access(facts, probe.is_local)
    yield _policy(facts)
    yield _persistence(facts)
    yield _latency(facts)
    yield judge_clock("Redis clock", facts.clock_ms, doubt_ms=round(max(facts.trips_ms)), whose="Redis'")


def _version(facts: RedisFacts) -> Finding:
    if facts.role == "slave":
        return problem(
            "Redis",
            "it is a read-only replica",
            "make it the master, or let redis.url name the master or the Sentinels",
        )
    if facts.version is None:
        return warning("Redis", "it does not tell its version", "give this user the right to INFO")
    parts = facts.version.split(".")
    known = all(part.isdigit() for part in parts[:2]) and len(parts) >= 2
    if known and (int(parts[0]), int(parts[1])) < LEAST_VERSION:
        least = ".".join(map(str, LEAST_VERSION))
        return problem("Redis", f"version {facts.version}", f"Redis {least} or later is needed, or Valkey")
    return ok("Redis", f"answers, version {facts.version}")


def _access(facts: RedisFacts, is_local: bool) -> Finding:
    if not facts.lets_anyone_in:
        return ok("Redis access", "a user or password is asked for")
    if is_local:
        return ok("Redis access", "no password is asked for; it is reached on this machine only")
    return warning(
        "Redis access",
        "no password is asked for, on an address that others may reach",
        "set requirepass or users by ACL, and redis.passwordFile (docs/security.md)",
    )


def _policy(facts: RedisFacts) -> Finding:
    limit = "" if not facts.max_bytes else f", at most {bytes_text(facts.max_bytes)}"
    if facts.policy is None:
        return warning(
            "Redis memory",
            "its policy for being full is not told",
            "see that it is `maxmemory-policy noeviction`",
        )
    if facts.policy != "noeviction":
        return problem(
            "Redis memory",
            f"maxmemory-policy {facts.policy}{limit}: leases and records may be thrown away",
            "CONFIG SET maxmemory-policy noeviction, and in its configuration file",
        )
    return ok("Redis memory", f"maxmemory-policy noeviction{limit}")


def _persistence(facts: RedisFacts) -> Finding:
    if facts.appends is None:
        return warning("Redis persistence", "not told", "see that it has `appendonly yes`")
    if facts.appends:
        return ok("Redis persistence", "append-only file")
    told = f"snapshots only ({facts.saves})" if facts.saves else "no append-only file"
    return warning(
        "Redis persistence",
        f"{told}: after a restart states and usage events are lost, and nobody acts for a lease's duration",
        "CONFIG SET appendonly yes, and in its configuration file",
    )


def _latency(facts: RedisFacts) -> Finding:
    median = statistics.median(facts.trips_ms)
    told = f"a round trip takes {median:.1f} ms, at most {max(facts.trips_ms):.1f} ms"
    if median >= TOO_SLOW_MS:
        return problem("Redis latency", told, "leases can't be kept with that: have Redis in the same zone")
    if median >= SLOW_MS:
        return warning("Redis latency", told, "a Redis in the same zone has about 1 ms")
    return ok("Redis latency", told)
