"""The informant's set of agents: registration, checks, who is current, in every order of answers."""

from __future__ import annotations

import pytest

from app.protocols.agent_store import MemoryAgentStore, StoredAgent
from app.protocols.informant import AgentAnswer, AgentDesc, AgentRequest
from app.protocols.informant_set import (
    CHECK_FAILED,
    AgentGone,
    AgentSet,
    CallAgent,
    OldNumber,
    Refusal,
    RegistrationEnded,
    SetEffect,
    SetSettings,
)

ID, SUSPEND, RESUME = AgentRequest.ID, AgentRequest.SUSPEND, AgentRequest.RESUME


def desc(letter: str, address: str = "10.0.0.1:80", low: int = 1, high: int = 1) -> AgentDesc:
    return AgentDesc(f"{letter * 8}-0000-4000-8000-000000000000", address, low, high)


A, B, C = desc("a"), desc("b"), desc("c")


class Driver:
    """Plays the caller: keeps the calls that are out, answers them as told."""

    def __init__(self, settings: SetSettings | None = None) -> None:
        self.set = AgentSet(settings)
        self.now = 0.0
        self.out: list[CallAgent] = []
        self.log: list[SetEffect] = []
        self._numbers: dict[str, int] = {}

    def take(self, effects: list[SetEffect]) -> list[SetEffect]:
        self.log += effects
        for effect in effects:
            if isinstance(effect, CallAgent):
                self.out.append(effect)
            elif isinstance(effect, AgentGone):
                self.out = [call for call in self.out if call.registration != effect.registration]
        return effects

    def begin(self, who: AgentDesc, **options: bool) -> int:
        outcome = self.set.register(who, caller="10.0.0.1", **options)
        assert not isinstance(outcome, Refusal)
        self.take(outcome[1])
        return outcome[0]

    def refused(self, who: AgentDesc, **options: bool) -> int:
        outcome = self.set.register(who, caller="10.0.0.1", **options)
        assert isinstance(outcome, Refusal)
        return outcome.status

    def find(self, who: AgentDesc, request: AgentRequest) -> CallAgent:
        return next(call for call in self.out if call.desc == who and call.request is request)

    def answer(
        self, who: AgentDesc, request: AgentRequest, *, as_id: str | None = None, number: int | None = None
    ) -> list[SetEffect]:
        call = self.find(who, request)
        self.out.remove(call)
        self._numbers[who.agent_id] = self._numbers.get(who.agent_id, 0) + 1
        sequence = self._numbers[who.agent_id] if number is None else number
        return self.take(
            self.set.answered(self.now, call.number, AgentAnswer(as_id or who.agent_id, sequence))
        )

    def fail(self, who: AgentDesc, request: AgentRequest) -> list[SetEffect]:
        call = self.find(who, request)
        self.out.remove(call)
        return self.take(self.set.failed(self.now, call.number, "on purpose"))

    def registered(self, who: AgentDesc) -> None:
        self.begin(who)
        self.answer(who, ID)

    @property
    def calls(self) -> list[tuple[str, AgentRequest]]:
        return [(call.desc.agent_id[0], call.request) for call in self.out]

    @property
    def current(self) -> str | None:
        return None if self.set.current is None else self.set.current.desc.agent_id[0]


@pytest.fixture
def driver() -> Driver:
    return Driver()


def test_the_first_agent_is_checked_then_answered_then_resumed(driver: Driver) -> None:
    registration = driver.begin(A)
    assert driver.calls == [("a", ID)]
    assert driver.current is None
    assert driver.set.registered == ()
    assert driver.set.get(A.agent_id) is not None
    effects = driver.answer(A, ID)
    assert effects[0] == RegistrationEnded(registration, 1)
    assert driver.calls == [("a", RESUME)]
    assert driver.current == "a"
    driver.answer(A, RESUME)
    assert (driver.calls, driver.set.calls_size) == ([], 0)


def test_the_calls_have_the_limits_of_the_protocol(driver: Driver) -> None:
    driver.registered(A)
    driver.answer(A, RESUME)
    driver.registered(B)
    limits = {call.request: call.limit_s for call in driver.log if isinstance(call, CallAgent)}
    assert limits == {ID: 0.25, RESUME: 0.1, SUSPEND: 0.2}


def test_a_registration_is_checked_for_version_then_id_then_address_then_leave(driver: Driver) -> None:
    driver.begin(A)
    nowhere = desc("a", "http://evil/", low=2, high=3)
    assert driver.refused(nowhere, is_allowed=False) == 400
    assert driver.refused(desc("a", "http://evil/"), is_allowed=False) == 409
    assert driver.refused(desc("b", "http://evil/"), is_allowed=False) == 400
    assert driver.refused(B, is_allowed=False) == 403
    assert driver.set.get(B.agent_id) is None


def test_the_same_id_twice_at_once_gets_409_while_the_check_still_runs(driver: Driver) -> None:
    driver.begin(A)
    assert driver.refused(A) == 409
    driver.answer(A, ID)
    assert driver.refused(A) == 409


def test_a_set_that_is_full_takes_no_more() -> None:
    driver = Driver(SetSettings(agents=2))
    driver.begin(A)
    driver.begin(B)
    assert driver.refused(C) == 503


def test_a_failed_first_check_is_answered_400_without_what_was_answered(driver: Driver) -> None:
    registration = driver.begin(A)
    effects = driver.answer(A, ID, as_id="a secret of some other server")
    ended = effects[-1]
    assert isinstance(ended, RegistrationEnded)
    assert isinstance(ended.outcome, Refusal)
    assert (ended.registration, ended.outcome.status) == (registration, 400)
    assert "secret" not in ended.outcome.text
    assert driver.set.get(A.agent_id) is None
    driver.begin(A)


def test_sequence_number_0_is_an_error(driver: Driver) -> None:
    driver.begin(A)
    effects = driver.answer(A, ID, number=0)
    assert isinstance(effects[0], AgentGone)
    assert driver.set.get(A.agent_id) is None


def test_an_old_number_is_reported_and_nothing_acts_on_it(driver: Driver) -> None:
    driver.registered(A)
    effects = driver.answer(A, RESUME, number=1)
    assert effects == [OldNumber(A, 1, 1)]
    assert driver.current == "a"
    driver.now = 10
    driver.take(driver.set.tick(10))
    assert driver.answer(A, ID, number=2) == []


def test_each_registration_starts_the_numbers_anew(driver: Driver) -> None:
    driver.begin(A)
    driver.answer(A, ID, number=900)
    driver.set.unregister(A)
    driver.out.clear()
    driver.begin(A)
    effects = driver.answer(A, ID, number=1)
    assert not any(isinstance(effect, OldNumber) for effect in effects)


def test_the_newest_becomes_current_at_once_and_the_previous_is_suspended(driver: Driver) -> None:
    driver.registered(A)
    driver.answer(A, RESUME)
    driver.registered(B)
    assert driver.current == "b"
    assert driver.calls == [("b", RESUME), ("a", SUSPEND)]


def test_the_order_is_that_of_the_checks_that_succeeded(driver: Driver) -> None:
    driver.begin(A)
    driver.begin(B)
    driver.answer(B, ID)
    driver.answer(B, RESUME)
    driver.answer(A, ID)
    assert [agent.desc for agent in driver.set.registered] == [B, A]
    assert driver.current == "a"


def test_no_other_agent_is_resumed_until_the_suspend_has_ended(driver: Driver) -> None:
    driver.registered(A)
    driver.answer(A, RESUME)
    driver.registered(B)
    driver.registered(C)
    assert driver.current == "b"
    driver.answer(B, RESUME)
    assert driver.calls == [("a", SUSPEND)]
    driver.answer(A, SUSPEND)
    assert driver.current == "c"
    assert driver.calls == [("c", RESUME), ("b", SUSPEND)]


def test_agents_that_came_during_a_change_over_are_skipped_for_the_newest(driver: Driver) -> None:
    driver.registered(A)
    driver.registered(B)
    driver.registered(C)
    driver.answer(A, RESUME)
    assert driver.current == "c"
    assert driver.calls == [("c", RESUME), ("a", SUSPEND)]
    assert not any(
        isinstance(call, CallAgent) and call.desc == B and call.request is RESUME for call in driver.log
    )


def test_when_the_current_one_goes_the_next_newest_is_resumed(driver: Driver) -> None:
    driver.registered(A)
    driver.answer(A, RESUME)
    driver.registered(B)
    driver.answer(B, RESUME)
    driver.answer(A, SUSPEND)
    outcome = driver.set.unregister(B)
    assert not isinstance(outcome, Refusal)
    was_active, effects = outcome
    driver.take(effects)
    assert was_active is True
    assert driver.current == "a"
    assert driver.calls == [("a", RESUME)]


def test_when_the_current_one_goes_during_the_suspend_the_next_waits_for_it(driver: Driver) -> None:
    driver.registered(A)
    driver.answer(A, RESUME)
    driver.registered(B)
    driver.fail(B, RESUME)
    assert driver.current is None
    assert driver.calls == [("a", SUSPEND)]
    driver.answer(A, SUSPEND)
    assert driver.current == "a"
    assert driver.calls == [("a", RESUME)]


def test_a_failed_suspend_drops_the_previous_agent_only(driver: Driver) -> None:
    driver.registered(A)
    driver.answer(A, RESUME)
    driver.registered(B)
    effects = driver.fail(A, SUSPEND)
    assert effects == [AgentGone(1, A, "/suspend: on purpose")]
    assert driver.current == "b"
    assert driver.set.get(A.agent_id) is None


def test_an_agent_dropped_by_its_resume_leaves_no_current(driver: Driver) -> None:
    driver.registered(A)
    driver.fail(A, RESUME)
    assert driver.current is None
    assert driver.set.registered == ()


def test_unregistering_an_agent_that_is_not_current_changes_nothing_for_it(driver: Driver) -> None:
    driver.registered(A)
    driver.answer(A, RESUME)
    driver.registered(B)
    driver.answer(B, RESUME)
    outcome = driver.set.unregister(A)
    assert not isinstance(outcome, Refusal)
    assert outcome[0] is False
    assert driver.current == "b"


def test_unregistering_checks_id_then_address_then_leave(driver: Driver) -> None:
    unknown = driver.set.unregister(A, is_allowed=False)
    driver.registered(A)
    elsewhere = driver.set.unregister(desc("a", "10.0.0.9:9"), is_allowed=False)
    foreign = driver.set.unregister(A, is_allowed=False)
    assert all(isinstance(each, Refusal) for each in (unknown, elsewhere, foreign))
    assert [each.status for each in (unknown, elsewhere, foreign) if isinstance(each, Refusal)] == [
        404,
        400,
        403,
    ]
    assert isinstance(elsewhere, Refusal)
    assert A.address not in elsewhere.text
    assert driver.current == "a"


def test_unregistering_twice_does_nothing_the_second_time(driver: Driver) -> None:
    driver.registered(A)
    assert not isinstance(driver.set.unregister(A), Refusal)
    second = driver.set.unregister(A)
    assert isinstance(second, Refusal)
    assert second.status == 404


def test_unregistering_during_the_check_answers_the_registration_400(driver: Driver) -> None:
    registration = driver.begin(A)
    late = driver.find(A, ID)
    outcome = driver.set.unregister(A)
    assert not isinstance(outcome, Refusal)
    was_active, effects = outcome
    assert was_active is False
    assert effects[0] == AgentGone(registration, A, None)
    ended = effects[1]
    assert isinstance(ended, RegistrationEnded)
    assert isinstance(ended.outcome, Refusal)
    assert ended.outcome.status == 400
    assert driver.set.answered(1, late.number, AgentAnswer(A.agent_id, 1)) == []
    assert driver.set.failed(1, late.number, "cancelled") == []


def test_what_comes_late_of_an_earlier_registration_does_not_count(driver: Driver) -> None:
    driver.registered(A)
    late = driver.find(A, RESUME)
    driver.set.unregister(A)
    driver.out.clear()
    driver.registered(A)
    assert driver.set.failed(1, late.number, "too late") == []
    assert driver.current == "a"


def test_checks_come_ten_seconds_after_registration_and_after_each_end(driver: Driver) -> None:
    assert driver.set.due() is None
    driver.now = 5
    driver.registered(A)
    driver.answer(A, RESUME)
    assert driver.set.due() == 15
    assert driver.set.tick(14.9) == []
    driver.take(driver.set.tick(15))
    assert driver.calls == [("a", ID)]
    assert driver.set.due() is None
    assert driver.set.tick(99) == []
    driver.now = 15.2
    driver.answer(A, ID)
    assert driver.set.due() == pytest.approx(25.2)


def test_suspended_agents_are_checked_too(driver: Driver) -> None:
    driver.registered(A)
    driver.answer(A, RESUME)
    driver.registered(B)
    driver.answer(B, RESUME)
    driver.answer(A, SUSPEND)
    driver.take(driver.set.tick(10))
    assert driver.calls == [("a", ID), ("b", ID)]


def test_a_failed_check_drops_the_agent(driver: Driver) -> None:
    driver.registered(A)
    driver.answer(A, RESUME)
    driver.take(driver.set.tick(10))
    assert driver.fail(A, ID) == [AgentGone(1, A, "/id: on purpose")]
    assert driver.current is None


def test_as_many_checks_in_a_row_must_fail_as_the_setting_says() -> None:
    driver = Driver(SetSettings(failed_checks=2, check_after_s=1))
    driver.registered(A)
    driver.answer(A, RESUME)
    for now in (1, 2, 3):
        driver.now = now
        driver.take(driver.set.tick(now))
        if now == 2:
            driver.answer(A, ID)
        else:
            assert driver.fail(A, ID) == []
    driver.now = 4
    driver.take(driver.set.tick(4))
    assert isinstance(driver.fail(A, ID)[0], AgentGone)


def test_only_checks_of_a_registered_agent_may_fail_several_times() -> None:
    driver = Driver(SetSettings(failed_checks=3))
    driver.begin(A)
    assert driver.fail(A, ID)[-1] == RegistrationEnded(1, CHECK_FAILED), "the first check counts at once"
    driver.registered(A)
    driver.answer(A, RESUME)
    driver.registered(B)
    assert isinstance(driver.fail(A, SUSPEND)[0], AgentGone)
    assert isinstance(driver.fail(B, RESUME)[0], AgentGone)


class BlindStore(MemoryAgentStore):
    """One in which somebody else enters agents between two of our steps."""

    def get(self, agent_id: str) -> StoredAgent | None:
        return None


def test_of_two_sets_over_one_store_one_wins() -> None:
    store = BlindStore()
    desc = AgentDesc("6a1c5f6e-1111-4222-8333-0123456789ab", "10.0.0.1:80", 1, 1)
    first, second = (AgentSet(store=store).register(desc, caller="10.0.0.1") for _ in range(2))
    assert not isinstance(first, Refusal)
    assert isinstance(second, Refusal)
    assert second.status == 409
