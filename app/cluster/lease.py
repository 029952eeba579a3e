"""Lease arithmetic: deadlines, limits of calls, fair share, which buckets to try and which to hand over.

Source of the rules: `spec/forwarder.md`, "Leases in Redis". All times are seconds on the holder's monotonic
clock; nothing here reads one.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from app.cluster.ring import fnv1a_64

MARGIN_S = 0.5
"""What every call leaves of the lease, and the least that must be left to begin one."""


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """How long a lease lives; `renew_every_s` < `give_up_after_s` < `duration_s`.

    Attributes:
        duration_s: from its last renewal to its end, by Redis' clock.
        renew_every_s: between two renewals.
        give_up_after_s: without a successful renewal the holder lets go by itself.
    """

    duration_s: float = 15.0
    renew_every_s: float = 2.0
    give_up_after_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease that we hold.

    Attributes:
        token: the fencing token that was given with it.
        counted_from: the moment before its last successful renewal (or its acquisition) was sent.
    """

    bucket: str
    token: int
    counted_from: float
    times: LeaseTimes

    def remaining(self, now: float) -> float:
        """Seconds until it could end at Redis; negative once it could have."""
        return self.counted_from + self.times.duration_s - now

    def is_given_up(self, now: float) -> bool:
        """Whether it has gone without renewal for so long that its holder must let go."""
        return now - self.counted_from >= self.times.give_up_after_s

    def call_limit(self, setting_s: float, now: float) -> float | None:
        """Seconds that a call begun now may take, always above 0; None: it must not be begun.

        Args:
            setting_s: the call's own limit; 0: only the lease limits it.
        """
        rest = self.remaining(now) - MARGIN_S
        if rest <= 0 or self.is_given_up(now):
            return None
        return rest if setting_s <= 0 else min(setting_s, rest)


def fair_share(buckets: int, workers: int) -> int:
    """How many buckets each of `workers` live workers holds at most: ⌈B/W⌉."""
    return -(-buckets // max(workers, 1))


def buckets_to_try(free: Iterable[str], held: int, share: int, agent_id: str) -> list[str]:
    """Which free buckets to ask for: up to the fair share, in an order that differs between agents.

    Two workers that look at the same moment then mostly ask for different ones.
    """
    seed = fnv1a_64(agent_id.encode())
    ranked = sorted(free, key=lambda name: (fnv1a_64(name.encode(), seed), name))
    return ranked[: max(share - held, 0)]


def bucket_to_shed(held: Collection[str], share: int) -> str | None:
    """The next bucket to hand over, the last by name; None while there is no surplus.

    Args:
        held: buckets that we hold and aren't handing over already.
    """
    return max(held) if len(held) > share else None


def format_identity(name: str, address: str) -> str:
    """`<name>_<ip>`; the name may hold `_` too."""
    return f"{name}_{address}"


def parse_identity(identity: str) -> tuple[str, str] | None:
    """(name, address) of a holder; None if what follows the last `_` is no IP address.

    An IPv6 address may have a zone, or stand in brackets, which the result leaves out.
    """
    name, mark, address = identity.rpartition("_")
    if address.startswith("[") and address.endswith("]"):
        address = address[1:-1]
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return None
    return (name, address) if mark and name else None
