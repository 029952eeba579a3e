"""Builders for the built-in scheduler's tests."""

from __future__ import annotations

from app.core.permits import Amount, Grant, PodFacts, Refusal, Wish
from app.core.reservations import Reservations

GIB = 1 << 30


def amount(cpu: int, gib: float) -> Amount:
    """Milli-vCPU and GiB."""
    return Amount(cpu, int(gib * GIB))


def pod_facts(
    name: str = "a",
    *,
    node: str = "n1",
    maximum: Amount | None = None,
    size: Amount | None = None,
    uid: str = "u1",
    slot_bytes: int = GIB,
    is_observed: bool = False,
    is_migrating: bool = False,
) -> PodFacts:
    """A VM `ns/<name>` of 1 CPU and 1 GiB that may have 4 of each."""
    return PodFacts(
        key=f"ns/{name}",
        uid=uid,
        node=node,
        maximum=maximum or amount(4000, 4),
        size=size or amount(1000, 1),
        slot_bytes=slot_bytes,
        is_observed=is_observed,
        is_migrating=is_migrating,
    )


def books(*pods: PodFacts, cpu: int = 10_000, gib: float = 10) -> Reservations:
    """Reservations of one node `n1` with these VMs."""
    made = Reservations({"n1": amount(cpu, gib)})
    for facts in pods:
        made.update(facts)
    return made


def ask(
    reservations: Reservations,
    name: str,
    requested: Amount,
    *,
    last_permit: Amount | None = None,
    is_whole_cpus: bool = False,
    token: int | None = None,
    now_ms: int = 0,
) -> Grant | Refusal:
    """What `ns/<name>` is told when it asks for `requested`."""
    wish = Wish(requested, last_permit, is_whole_cpus, token)
    return reservations.request(f"ns/{name}", wish, now_ms=now_ms)


def permit(answer: Grant | Refusal) -> Amount:
    """The permit of an answer that must be a grant."""
    assert isinstance(answer, Grant), answer
    return answer.permit


def refusal(answer: Grant | Refusal) -> Refusal:
    """The refusal that an answer must be."""
    assert isinstance(answer, Refusal), answer
    return answer
