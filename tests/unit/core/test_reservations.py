"""The built-in scheduler's books (`spec/scheduler-protocol.md`, last section)."""

from __future__ import annotations

from app.core.permits import NOTHING, Grant, RefusalKind
from app.core.reservations import SETTLE_MS, NodeView, Reservations, grow
from tests.fakes.pods import amount, ask, books, permit, pod_facts, refusal


def node(reservations: Reservations, name: str = "n1") -> NodeView:
    return next(view for view in reservations.view() if view.name == name)


def test_an_increase_is_granted_whole_while_the_node_has_room() -> None:
    reservations = books(pod_facts("a"))
    ask(reservations, "a", amount(1000, 1))
    assert permit(ask(reservations, "a", amount(3000, 2))) == amount(3000, 2)
    assert node(reservations).reserved == amount(3000, 2)


def test_an_increase_beyond_what_is_left_is_granted_in_part_and_the_rest_is_pressure() -> None:
    reservations = books(pod_facts("a"), pod_facts("b"), cpu=6100)
    ask(reservations, "b", amount(1000, 1))
    ask(reservations, "a", amount(4000, 1))
    answer = ask(reservations, "b", amount(4000, 2))
    assert answer == Grant(amount(2100, 2), amount(1900, 0), 1 << 30, is_migrating=False)
    assert node(reservations).pressure == amount(1900, 0)
    assert node(reservations).left == amount(0, 7)


def test_each_resource_is_handled_on_its_own() -> None:
    reservations = books(pod_facts("a"), gib=1)
    answer = ask(reservations, "a", amount(4000, 3))
    assert permit(answer) == amount(4000, 1)
    assert node(reservations).pressure == amount(0, 2)


def test_a_decrease_is_taken_as_told_and_ends_the_pressure() -> None:
    reservations = books(pod_facts("a"), cpu=3000)
    ask(reservations, "a", amount(4000, 4))
    assert node(reservations).pressure == amount(1000, 0)
    assert permit(ask(reservations, "a", amount(2000, 2))) == amount(2000, 2)
    assert node(reservations).reserved == amount(2000, 2)
    assert node(reservations).pressure == NOTHING


def test_a_vm_that_has_not_spoken_reserves_its_maximum() -> None:
    reservations = books(pod_facts("quiet"), pod_facts("a"), cpu=6000)
    assert node(reservations).reserved == amount(8000, 8)
    assert permit(ask(reservations, "a", amount(4000, 4))) == amount(2000, 4)


def test_the_buffer_ends_when_the_vm_says_what_it_holds() -> None:
    reservations = books(pod_facts("quiet"), pod_facts("a"), cpu=6000)
    ask(reservations, "quiet", amount(1000, 1))
    assert permit(ask(reservations, "a", amount(4000, 4))) == amount(4000, 4)


def test_buffers_that_exceed_the_node_do_not_let_first_words_overcommit_it() -> None:
    reservations = books(*(pod_facts(name) for name in "abc"), cpu=6000)
    granted = [permit(ask(reservations, name, amount(4000, 1))).cpu for name in "abc"]
    assert sum(granted) <= 6000
    assert all(cpu >= 1000 for cpu in granted)


def test_an_increase_without_any_room_keeps_what_the_vm_has() -> None:
    reservations = books(pod_facts("a"), pod_facts("b"), cpu=2000)
    ask(reservations, "a", amount(1000, 1))
    ask(reservations, "b", amount(1000, 1))
    assert permit(ask(reservations, "b", amount(4000, 1))) == amount(1000, 1)


def test_the_permit_from_the_scheduler_before_us_is_kept() -> None:
    reservations = books(pod_facts("quiet"), pod_facts("a"), cpu=5000)
    answer = ask(reservations, "a", amount(3000, 2), last_permit=amount(3000, 2))
    assert permit(answer) == amount(3000, 2)


def test_a_last_permit_counts_up_to_the_vms_own_buffer_and_only_at_first() -> None:
    reservations = books(pod_facts("a"), pod_facts("b"), cpu=5000)
    ask(reservations, "b", amount(1000, 1))
    assert permit(ask(reservations, "a", amount(9000, 1), last_permit=amount(9000, 1))).cpu == 4000
    assert permit(ask(reservations, "b", amount(4000, 1), last_permit=amount(4000, 1))).cpu == 1000


def test_an_observed_vm_counts_with_its_observed_size() -> None:
    reservations = books(pod_facts("seen", size=amount(2000, 2), is_observed=True), pod_facts("a"), cpu=5000)
    assert permit(ask(reservations, "a", amount(4000, 4))) == amount(3000, 4)
    reservations.update(pod_facts("seen", size=amount(4000, 2), is_observed=True))
    assert node(reservations).reserved == amount(7000, 6)


def test_a_vm_that_stops_being_observed_reserves_its_maximum_again() -> None:
    reservations = books(pod_facts("a", is_observed=True))
    reservations.update(pod_facts("a"))
    assert node(reservations).reserved == amount(4000, 4)


def test_what_a_vanished_vm_held_is_free() -> None:
    reservations = books(pod_facts("a"), pod_facts("b"), cpu=5000)
    ask(reservations, "a", amount(4000, 4))
    reservations.remove("ns/a")
    reservations.remove("ns/a")
    assert node(reservations).reserved == amount(4000, 4)
    assert permit(ask(reservations, "b", amount(4000, 4))) == amount(4000, 4)
    assert refusal(ask(reservations, "a", amount(1000, 1))).kind is RefusalKind.UNKNOWN_POD


def test_another_vm_of_the_same_name_starts_anew() -> None:
    reservations = books(pod_facts("a"))
    ask(reservations, "a", amount(1000, 1), token=7)
    reservations.update(pod_facts("a", uid="u2"))
    assert node(reservations).reserved == amount(4000, 4)
    assert refusal(ask(reservations, "a", amount(1000, 1), token=6)).kind is RefusalKind.OLD_TOKEN


def test_a_vm_takes_its_reservation_along_to_another_node() -> None:
    reservations = Reservations({"n1": amount(4000, 4), "n2": amount(4000, 4)})
    reservations.update(pod_facts("a"))
    ask(reservations, "a", amount(2000, 2))
    reservations.update(pod_facts("a", node="n2"))
    assert node(reservations, "n1").reserved == NOTHING
    assert node(reservations, "n2").reserved == amount(2000, 2)
    assert permit(ask(reservations, "a", amount(3000, 3))) == amount(3000, 3)


def test_a_vm_on_a_node_that_is_not_configured_is_refused() -> None:
    reservations = books(pod_facts("a", node="n9"))
    answer = refusal(ask(reservations, "a", amount(1000, 1)))
    assert answer.kind is RefusalKind.UNKNOWN_NODE
    assert "n9" in answer.text


def test_an_older_token_is_refused_and_changes_nothing() -> None:
    reservations = books(pod_facts("a"))
    ask(reservations, "a", amount(2000, 2), token=9)
    assert refusal(ask(reservations, "a", amount(1000, 1), token=8)).kind is RefusalKind.OLD_TOKEN
    assert node(reservations).reserved == amount(2000, 2)
    assert permit(ask(reservations, "a", amount(1000, 1), token=9)) == amount(1000, 1)
    assert permit(ask(reservations, "a", amount(1000, 1))) == amount(1000, 1)


def test_a_speaker_below_v2_gets_whole_cpus() -> None:
    reservations = books(pod_facts("a"), cpu=2700)
    assert permit(ask(reservations, "a", amount(4000, 1), is_whole_cpus=True)).cpu == 2000
    assert node(reservations).pressure.cpu == 2000
    assert node(reservations).reserved.cpu == 2000


def test_a_speaker_below_v2_is_never_told_less_than_its_vm_uses() -> None:
    reservations = books(pod_facts("a", size=amount(500, 1)), pod_facts("b", size=amount(2500, 1)))
    for name, cpu in (("a", 500), ("b", 2500)):
        answer = refusal(ask(reservations, name, amount(cpu, 1), is_whole_cpus=True))
        assert answer.kind is RefusalKind.BAD_REQUEST
    assert node(reservations).reserved == amount(8000, 8)


def test_memory_grows_by_whole_slots() -> None:
    reservations = books(pod_facts("a"), gib=2.7)
    assert permit(ask(reservations, "a", amount(1000, 4))) == amount(1000, 2)


def test_a_migrating_vm_may_only_confirm_its_size() -> None:
    reservations = books(pod_facts("a"))
    ask(reservations, "a", amount(2000, 2))
    reservations.update(pod_facts("a", is_migrating=True))
    answer = ask(reservations, "a", amount(2000, 2))
    assert isinstance(answer, Grant)
    assert answer.is_migrating
    for other in (amount(1000, 2), amount(2000, 3)):
        assert refusal(ask(reservations, "a", other)).kind is RefusalKind.MIGRATING
    reservations.update(pod_facts("a"))
    assert permit(ask(reservations, "a", amount(3000, 2))) == amount(3000, 2)


def test_a_migrating_vms_first_word_may_tell_its_size_but_not_grow_it() -> None:
    reservations = books(pod_facts("a", is_migrating=True))
    assert refusal(ask(reservations, "a", amount(2000, 1))).kind is RefusalKind.MIGRATING
    assert permit(ask(reservations, "a", amount(1000, 1))) == amount(1000, 1)


def test_a_resize_by_someone_else_is_reserved_and_granted_even_on_a_full_node() -> None:
    reservations = books(pod_facts("a"), pod_facts("b"), cpu=2000)
    ask(reservations, "a", amount(1000, 1))
    ask(reservations, "b", amount(1000, 1))
    reservations.update(pod_facts("a", size=amount(3000, 1)))
    assert node(reservations).reserved.cpu == 4000
    assert node(reservations).left.cpu == 0
    assert permit(ask(reservations, "a", amount(3000, 1))) == amount(3000, 1)
    assert permit(ask(reservations, "b", amount(2000, 1))) == amount(1000, 1)


def test_an_echo_of_a_size_just_given_up_is_not_granted_again_from_a_full_node() -> None:
    reservations = books(pod_facts("a"), pod_facts("b"), cpu=3000)
    ask(reservations, "b", amount(1000, 1))
    ask(reservations, "a", amount(2000, 1))
    ask(reservations, "a", amount(1000, 1), now_ms=100)
    ask(reservations, "b", amount(2000, 1), now_ms=110)
    reservations.update(pod_facts("a", size=amount(2000, 1)))
    assert permit(ask(reservations, "a", amount(2000, 1), now_ms=120)).cpu == 1000
    assert permit(ask(reservations, "a", amount(2000, 1), now_ms=100 + SETTLE_MS)).cpu == 2000


def test_a_platform_that_repeats_an_old_size_is_no_news() -> None:
    reservations = books(pod_facts("a", size=amount(2000, 1)))
    ask(reservations, "a", amount(1000, 1))
    reservations.update(pod_facts("a", size=amount(2000, 1)))
    assert node(reservations).reserved == amount(1000, 1)


def test_nothing_and_less_than_a_slot_are_refused() -> None:
    reservations = books(pod_facts("a"))
    for wanted in (amount(0, 1), amount(1000, 0), amount(1000, 0.5)):
        assert refusal(ask(reservations, "a", wanted)).kind is RefusalKind.BAD_REQUEST


def test_a_vm_of_no_size_on_a_full_node_is_told_so() -> None:
    reservations = books(pod_facts("a", size=NOTHING), cpu=0)
    assert refusal(ask(reservations, "a", amount(1000, 1))).kind is RefusalKind.NO_ROOM


def test_growth_ends_at_the_grain_but_never_below_the_base() -> None:
    assert grow(1000, 800, 0, 1000) == 800
    assert grow(1500, 4000, 300, 1000) == 1500
    assert grow(1500, 4000, 600, 1000) == 2000
    assert grow(1000, 4000, 0, 1) == 1000
