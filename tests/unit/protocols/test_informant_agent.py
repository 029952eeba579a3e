"""The agents' side of the informant protocol: leave for effects, answers, registration with back-off."""

from __future__ import annotations

import json

import pytest

from app.protocols.informant import (
    AgentRequest,
    decode_agent_answer,
    decode_agent_desc,
    encode_expected_id,
    encode_registered,
)
from app.protocols.informant_agent import AgentTimes, InformantAgent, Reply, Standing
from app.protocols.informant_set import AgentSet, CallAgent, Refusal, RegistrationEnded, SetEffect

ID = "6a1c5f6e-1111-4222-8333-0123456789ab"
OTHER = "6a1c5f6e-1111-4222-8333-0123456789ac"
OK = encode_registered(1, 9100)


def agent(times: AgentTimes | None = None) -> InformantAgent:
    return InformantAgent(ID, "10.0.0.1:80", 0.0, times)


def registered(times: AgentTimes | None = None) -> InformantAgent:
    one = agent(times)
    assert one.begin_registration(0.0) is not None
    one.registration_answered(0.0, 200, OK, jitter=0)
    return one


def send(one: InformantAgent, path: str, ticket: int = 1, *, now: float = 0.0, to: str = ID) -> list[Reply]:
    method = "GET" if path == "/id" else "POST"
    return one.handle(now, ticket, method, path, b"{}" if path == "/id" else encode_expected_id(to))


def numbers(replies: list[Reply]) -> list[int]:
    return [decode_agent_answer(reply.body).sequence_number for reply in replies]


def test_a_new_agent_registers_at_once_and_may_do_nothing_before_it_is_resumed() -> None:
    one = agent()
    assert (one.standing, one.due()) == (Standing.UNREGISTERED, 0.0)
    body = one.begin_registration(0.0)
    assert body is not None
    assert decode_agent_desc(body).agent_id == ID
    assert one.due() is None
    one.registration_answered(0.1, 200, OK, jitter=0)
    assert (one.standing, one.metrics_port) == (Standing.REGISTERED, 9100)
    assert not one.begin_effect()
    assert send(one, "/resume")[0].status == 200
    assert one.begin_effect()


def test_an_agent_may_be_resumed_before_it_has_read_that_it_is_registered() -> None:
    one = agent()
    one.begin_registration(0.0)
    send(one, "/resume")
    one.registration_answered(0.1, 200, OK, jitter=0)
    assert one.is_active


def test_every_answer_has_a_higher_number() -> None:
    one = registered()
    replies = [*send(one, "/id"), *send(one, "/resume"), *send(one, "/id"), *send(one, "/suspend")]
    assert numbers(replies) == [1, 2, 3, 4]
    assert {decode_agent_answer(reply.body).agent_id for reply in replies} == {ID}


def test_a_suspend_bars_at_once_and_is_answered_after_the_effect_in_flight() -> None:
    one = registered()
    send(one, "/resume")
    assert one.begin_effect()
    assert send(one, "/suspend", ticket=7) == []
    assert not one.begin_effect()
    assert numbers(send(one, "/id", ticket=8)) == [2]
    replies = one.end_effect()
    assert [reply.ticket for reply in replies] == [7]
    assert numbers(replies) == [3]


def test_a_suspend_waits_for_the_last_of_several_effects() -> None:
    one = registered()
    send(one, "/resume")
    assert one.begin_effect()
    assert one.begin_effect()
    send(one, "/suspend", ticket=7)
    assert one.end_effect() == []
    assert [reply.ticket for reply in one.end_effect()] == [7]


def test_a_suspend_that_nobody_waits_for_any_more_still_bars() -> None:
    one = registered()
    send(one, "/resume")
    one.begin_effect()
    send(one, "/suspend", ticket=7)
    one.forget(7)
    assert one.end_effect() == []
    assert not one.begin_effect()


def test_a_resume_during_an_effect_is_answered_at_once() -> None:
    one = registered()
    send(one, "/resume")
    one.begin_effect()
    send(one, "/suspend", ticket=7)
    assert [reply.ticket for reply in send(one, "/resume", ticket=8)] == [8]
    assert one.is_active


@pytest.mark.parametrize("path", ["/suspend", "/resume"])
def test_a_request_that_means_another_agent_changes_nothing(path: str) -> None:
    one = registered()
    send(one, "/resume")
    assert send(one, path, to=OTHER)[0].status == 404
    assert one.is_active


def test_wrong_paths_methods_and_bodies_are_refused() -> None:
    one = registered()
    assert send(one, "/nothing")[0].status == 404
    assert one.handle(0, 1, "POST", "/id", b"")[0].status == 405
    assert one.handle(0, 1, "GET", "/suspend", b"")[0].status == 405
    assert one.handle(0, 1, "POST", "/suspend", b"[]")[0].status == 400
    assert numbers(send(one, "/id")) == [1]


def test_an_agent_that_is_not_registered_answers_nothing() -> None:
    one = agent()
    assert send(one, "/id")[0].status == 404
    assert send(one, "/resume")[0].status == 404
    assert not one.is_active


def test_refused_registrations_are_repeated_with_longer_and_longer_waits() -> None:
    one = agent(AgentTimes(retry_s=1, retry_max_s=5))
    waits, now = [], 0.0
    for _ in range(5):
        assert one.begin_registration(now) is not None
        one.registration_answered(now, 503, b"", jitter=0)
        due = one.due()
        assert due is not None
        assert one.begin_registration(due - 0.01) is None
        waits.append(due - now)
        now = due
    assert waits == [1, 2, 4, 5, 5]


@pytest.mark.parametrize(("status", "body"), [(None, b""), (400, b""), (200, b"{}"), (200, b"rubbish")])
def test_jitter_makes_the_wait_longer(status: int | None, body: bytes) -> None:
    one = agent(AgentTimes(retry_s=2))
    one.begin_registration(0.0)
    one.registration_answered(0.0, status, body, jitter=0.5)
    assert one.due() == 3.0


def test_silence_means_having_been_dropped() -> None:
    one = registered()
    send(one, "/resume", now=1.0)
    assert one.due() == 26.0
    send(one, "/id", now=11.0)
    assert one.begin_registration(35.9) is None
    assert one.is_active
    assert one.begin_registration(36.0) is not None
    assert not one.is_active


def test_an_agent_that_was_registered_all_along_keeps_what_it_was_told_last() -> None:
    one = registered()
    send(one, "/resume", now=1.0)
    one.begin_registration(26.0)
    one.registration_answered(26.1, 409, b"", jitter=0)
    assert one.is_active
    one.begin_registration(60.0)
    send(one, "/suspend", now=60.0)
    one.registration_answered(60.1, 409, b"", jitter=0)
    assert not one.is_active


def test_an_agent_that_is_registered_anew_waits_for_its_resume() -> None:
    one = registered()
    send(one, "/resume", now=1.0)
    one.begin_registration(26.0)
    one.registration_answered(26.1, 200, OK, jitter=0)
    assert not one.is_active


def test_a_registration_that_lasts_makes_the_waits_short_again() -> None:
    one = agent(AgentTimes(retry_s=1, settled_s=30, silence_s=25))
    for _ in range(3):
        due = one.due()
        assert due is not None
        one.begin_registration(due)
        one.registration_answered(due, None, b"", jitter=0)
    one.begin_registration(10.0)
    one.registration_answered(10.0, 200, OK, jitter=0)
    send(one, "/id", now=20.0)
    send(one, "/id", now=40.0)
    one.begin_registration(65.0)
    one.registration_answered(65.0, None, b"", jitter=0)
    assert one.due() == 66.0


def test_letting_go_unregisters_and_ends_everything() -> None:
    one = registered()
    send(one, "/resume")
    body = one.let_go()
    assert body is not None
    assert decode_agent_desc(body).agent_id == ID
    assert (one.standing, one.due(), one.is_active) == (Standing.LET_GO, None, False)
    assert send(one, "/id")[0].status == 404
    one.registration_answered(0, 200, OK, jitter=0)
    assert one.standing is Standing.LET_GO
    assert one.let_go() is None


def test_letting_go_before_registering_tells_nobody() -> None:
    assert agent().let_go() is None


def test_refusals_are_text() -> None:
    assert send(registered(), "/nothing")[0].body == b"not found\n"


class Pair:
    """A set and agents in one process, without a network between them."""

    def __init__(self) -> None:
        self.set = AgentSet()
        self.agents: dict[str, InformantAgent] = {}
        self.calls: dict[int, CallAgent] = {}
        self.old: list[object] = []

    def register(self, one: InformantAgent, now: float) -> None:
        body = one.begin_registration(now)
        assert body is not None
        desc = decode_agent_desc(body)
        self.agents[desc.agent_id] = one
        outcome = self.set.register(desc, caller="10.0.0.1")
        if isinstance(outcome, Refusal):
            one.registration_answered(now, outcome.status, b"", jitter=0)
        else:
            self.run(outcome[1], now)

    def run(self, effects: list[SetEffect], now: float) -> None:
        for effect in effects:
            if isinstance(effect, RegistrationEnded):
                is_taken = not isinstance(effect.outcome, Refusal)
                one = self.agents[next(reversed(self.agents))]
                one.registration_answered(now, 200 if is_taken else 400, OK, jitter=0)
            elif isinstance(effect, CallAgent):
                self.calls[effect.number] = effect
                body = b"" if effect.request is AgentRequest.ID else encode_expected_id(effect.desc.agent_id)
                one = self.agents[effect.desc.agent_id]
                self.reply(
                    one.handle(now, effect.number, effect.request.method, effect.request.path, body), now
                )
            else:
                self.old.append(effect)

    def reply(self, replies: list[Reply], now: float) -> None:
        for reply in replies:
            assert reply.status == 200
            self.run(self.set.answered(now, reply.ticket, decode_agent_answer(reply.body)), now)


def test_agents_and_set_hand_the_vm_over_without_two_ever_acting_on_their_own_word() -> None:
    pair = Pair()
    first, second, third = (
        InformantAgent(f"{n}a1c5f6e-1111-4222-8333-0123456789ab", "h:1", 0) for n in "123"
    )
    pair.register(first, 0)
    assert first.is_active
    assert first.begin_effect()
    pair.register(second, 1)
    assert (first.is_active, second.is_active) == (False, True)
    pair.register(third, 2)
    assert not third.is_active, "the suspend of the first is not answered yet"
    pair.reply(first.end_effect(), 3)
    assert [one.is_active for one in (first, second, third)] == [False, False, True]
    assert pair.old == []


def test_a_set_answers_409_to_an_agent_that_it_still_has() -> None:
    pair = Pair()
    one = agent()
    pair.register(one, 0)
    pair.register(one, 30)
    assert one.is_active
    assert json.loads(OK)["protoVersion"] == 1


def test_a_registration_without_a_resume_is_asked_about_soon() -> None:
    one = registered(AgentTimes(resume_s=3, silence_s=25))
    assert one.due() == 3.0
    send(one, "/id", now=1.0)
    assert one.due() == 4.0, "a check says nothing about the resume"
    assert one.begin_registration(4.0) is not None
    one.registration_answered(4.0, 409, b"", jitter=0)
    assert one.due() == 29.0, "it is registered, and will be told"


@pytest.mark.parametrize("path", ["/resume", "/suspend"])
def test_whoever_is_told_its_part_waits_for_silence_only(path: str) -> None:
    one = registered(AgentTimes(resume_s=3, silence_s=25))
    send(one, path, now=1.0)
    assert one.due() == 26.0


def test_a_suspend_is_known_until_the_next_registration() -> None:
    one = registered()
    assert not one.is_suspended
    send(one, "/suspend", now=1.0)
    assert one.is_suspended
    one.begin_registration(26.0)
    assert one.is_suspended
    one.registration_answered(26.0, 200, OK, jitter=0)
    assert not one.is_suspended, "it is registered anew, and not told anything yet"
    send(one, "/suspend", now=27.0)
    one.begin_registration(60.0)
    one.registration_answered(60.0, 503, b"", jitter=0)
    assert not one.is_suspended


def test_a_late_answer_makes_an_agent_doubt_its_registration() -> None:
    one = registered(AgentTimes(retry_s=1))
    send(one, "/suspend", now=1.0)
    one.doubt(2.0, jitter=0.5)
    assert one.due() == 5.0, "one registration has been made: twice the first wait, and the jitter"
    send(one, "/id", now=3.0)
    assert one.due() == 28.0, "it is known all the same"
    one.doubt(4.0, jitter=0)
    assert one.begin_registration(6.0) is not None
    one.registration_answered(6.0, 409, b"", jitter=0)
    assert one.due() == 31.0


def test_an_agent_that_is_not_registered_has_nothing_to_doubt() -> None:
    one = agent()
    one.doubt(5.0, jitter=0)
    assert one.due() == 0.0


def test_starting_anew_takes_another_id_and_address_with_numbers_that_go_on() -> None:
    one = registered()
    send(one, "/id")
    one.start_anew(OTHER, "10.0.0.1:81")
    assert one.desc.agent_id == ID, "not while it is registered"
    one.begin_registration(25.0)
    one.registration_answered(25.0, None, b"", jitter=0)
    one.start_anew(OTHER, "10.0.0.1:81")
    due = one.due()
    assert due is not None
    body = one.begin_registration(due)
    assert body is not None
    assert decode_agent_desc(body) == one.desc
    assert (one.desc.agent_id, one.desc.address, one.last_number) == (OTHER, "10.0.0.1:81", 1)
    assert send(one, "/resume", to=ID)[0].status == 404
    assert numbers(send(one, "/resume", to=OTHER)) == [2]


def test_an_effect_without_leave_is_waited_for_as_well() -> None:
    one = agent()
    one.begin_effect_without_leave()
    assert one.has_effect
    assert not one.begin_effect()
    one.begin_registration(0.0)
    assert send(one, "/suspend", ticket=7) == []
    assert [reply.ticket for reply in one.end_effect()] == [7]
    assert not one.has_effect
