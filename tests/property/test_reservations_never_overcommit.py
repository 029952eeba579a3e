"""Whatever is asked in whatever order, a node's capacity is not given out twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.core.permits import NOTHING, Amount, Grant, PodFacts, Wish
from app.core.reservations import Reservations
from tests.fakes.pods import pod_facts

NAMES = "abcd"
CAPACITY = Amount(8_000, 8_000)
SLOT = 100

amounts = st.builds(Amount, st.integers(0, 9_000), st.integers(0, 9_000))
names = st.sampled_from(NAMES)
wishes = st.builds(
    Wish, amounts, st.none() | amounts, st.booleans(), st.none() | st.integers(min_value=0, max_value=5)
)
facts = st.builds(
    lambda name, node, maximum, size, uid, is_observed, is_migrating: pod_facts(
        name,
        node=node,
        maximum=maximum,
        size=size,
        uid=uid,
        slot_bytes=SLOT,
        is_observed=is_observed,
        is_migrating=is_migrating,
    ),
    names,
    st.sampled_from(["n1", "n2", "n9"]),
    amounts,
    amounts,
    st.sampled_from(["u1", "u2"]),
    st.booleans(),
    st.booleans(),
)
asks = st.tuples(names, wishes, st.integers(min_value=0, max_value=20_000))
steps = st.lists(st.one_of(facts, names, asks), max_size=40)


def reserved(reservations: Reservations) -> dict[str, Amount]:
    return {view.name: view.reserved for view in reservations.view()}


@given(steps)
def test_an_answer_never_lets_reservations_grow_beyond_the_capacity(
    script: list[PodFacts | str | tuple[str, Wish, int]],
) -> None:
    reservations = Reservations({"n1": CAPACITY, "n2": CAPACITY})
    for step in script:
        match step:
            case PodFacts():
                reservations.update(step)
            case str():
                reservations.remove(f"ns/{step}")
            case (name, wish, now_ms):
                before = reserved(reservations)
                answer = reservations.request(f"ns/{name}", wish, now_ms=now_ms)
                after = reserved(reservations)
                for node, amount in after.items():
                    assert not amount.has_field_above(CAPACITY.max(before[node]))
                if isinstance(answer, Grant):
                    assert not answer.permit.has_field_above(wish.requested)
                    assert answer.permit.cpu > 0
                    assert answer.permit.mem > 0
                    assert answer.pressure == wish.requested.minus(answer.permit)
                    assert not wish.is_whole_cpus or answer.permit.cpu % 1000 == 0
                else:
                    assert before == after
        for view in reservations.view():
            assert view.left == view.capacity.minus(view.reserved)
            assert not NOTHING.has_field_above(view.left)


moves = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), names, st.integers(1, 40)),
        st.tuples(st.just("apply"), names, st.just(0)),
        st.tuples(st.just("delete"), names, st.just(0)),
        st.just(("restart", "", 0)),
    ),
    max_size=60,
)


@given(moves, st.booleans(), st.integers(min_value=0, max_value=2_000))
def test_grants_and_observed_sizes_stay_within_capacity_through_restarts_and_deletes(
    script: list[tuple[str, str, int]], is_telling: bool, observed_cpu: int
) -> None:
    """Agents as the core makes them: what they hold is their permit, first words confirm what they use."""
    watcher = pod_facts("seen", size=Amount(observed_cpu, SLOT), slot_bytes=SLOT, is_observed=True)
    use = dict.fromkeys(NAMES, Amount(1_000, SLOT))
    permits: dict[str, Amount] = {}

    def facts_of(name: str) -> PodFacts:
        return pod_facts(name, maximum=Amount(4_000, 40 * SLOT), size=use[name], slot_bytes=SLOT)

    def start() -> Reservations:
        fresh = Reservations({"n1": CAPACITY})
        for facts in (watcher, *map(facts_of, use)):
            fresh.update(facts)
        return fresh

    reservations = start()
    for kind, name, units in script:
        if kind == "restart":
            reservations = start()
        elif name not in use:
            continue
        elif kind == "delete":
            del use[name]
            permits.pop(name, None)
            reservations.remove(f"ns/{name}")
        elif kind == "apply":
            use[name] = permits.get(name, use[name])
            reservations.update(facts_of(name))
        else:
            wanted = Amount(units * 100, units * SLOT).max(use[name])
            wish = Wish(wanted, permits.get(name) if is_telling else None)
            answer = reservations.request(f"ns/{name}", wish, now_ms=0)
            assert isinstance(answer, Grant)
            assert not use[name].has_field_above(answer.permit)
            permits[name] = answer.permit
        held = [permits.get(each, NOTHING).max(use[each]) for each in use]
        assert sum(amount.cpu for amount in held) + observed_cpu <= CAPACITY.cpu
        assert sum(amount.mem for amount in held) + SLOT <= CAPACITY.mem
