"""The agent's core against the monitor's core, without a network, and each against hostile messages."""

from __future__ import annotations

import json

import pytest

from app.protocols.monitor_agent import (
    AgentConnection,
    CallAnswered,
    CallFailed,
    Close,
    MonitorResult,
    MoreResources,
    MoreResourcesAsked,
    Opened,
    Send,
)
from app.protocols.monitor_guest import (
    AgentReady,
    CloseAgent,
    DownscaleAsked,
    GuestConnection,
    SendToAgent,
    UpscaleGranted,
)
from app.protocols.monitor_wire import (
    MAX_ID,
    MAX_READ_BYTES,
    DownscaleRequest,
    DownscaleResult,
    HealthCheck,
    UpscaleConfirmation,
    UpscaleNotification,
)


def opened() -> AgentConnection:
    agent = AgentConnection()
    assert agent.receive(b'{"version": 1}') == [Opened(1)]
    return agent


def ready() -> GuestConnection:
    guest = GuestConnection()
    guest.receive(b'{"min": 1, "max": 1}')
    assert guest.is_open
    return guest


def sent(effects: object) -> dict[str, object]:
    assert isinstance(effects, list)
    assert isinstance(effects[0], Send | SendToAgent)
    document: dict[str, object] = json.loads(effects[0].data)
    return document


def test_the_two_sides_agree_on_version_one() -> None:
    agent, guest = AgentConnection(), GuestConnection()
    assert not agent.is_open
    assert json.loads(agent.start()) == {"min": 1, "max": 1}
    answer, is_ready = guest.receive(agent.start())
    assert isinstance(answer, SendToAgent)
    assert json.loads(answer.data) == {"version": 1}
    assert is_ready == AgentReady(1)
    assert agent.receive(answer.data) == [Opened(1)]
    assert agent.is_open


def test_each_question_is_answered_and_ids_are_even_and_rise_by_two() -> None:
    agent, guest = opened(), ready()
    first, data = agent.call(HealthCheck())
    (answer,) = guest.receive(data)
    assert isinstance(answer, SendToAgent)
    assert agent.receive(answer.data) == [CallAnswered(2, MonitorResult(health_check=HealthCheck()))]
    second, data = agent.call(UpscaleNotification(2.0, 4096))
    assert guest.receive(data) == [UpscaleGranted(4, 2.0, 4096)]
    assert agent.receive(guest.confirm_upscale(4)) == [
        CallAnswered(4, MonitorResult(confirmation=UpscaleConfirmation()))
    ]
    third, data = agent.call(DownscaleRequest(1.0, 2048))
    assert guest.receive(data) == [DownscaleAsked(6, 1.0, 2048)]
    assert agent.waiters_size == 1
    assert agent.receive(guest.answer_downscale(6, is_allowed=False, status="no")) == [
        CallAnswered(6, MonitorResult(downscale=DownscaleResult(False, "no")))
    ]
    assert (first, second, third, agent.waiters_size) == (2, 4, 6, 0)


def test_answers_may_come_in_another_order() -> None:
    agent = opened()
    for question in (HealthCheck(), UpscaleNotification(1.0, 1)):
        agent.call(question)
    assert agent.receive(GuestConnection.confirm_upscale(4)) == [
        CallAnswered(4, MonitorResult(confirmation=UpscaleConfirmation()))
    ]
    assert agent.waiters_size == 1


def test_the_monitors_requests_have_odd_ids_and_always_mean_memory() -> None:
    agent, guest = opened(), ready()
    requests = [guest.request_upscale() for _ in range(3)]
    assert [json.loads(data)["id"] for data in requests] == [1, 3, 5]
    assert agent.receive(requests[0]) == [MoreResourcesAsked(MoreResources(cpu=False, memory=True))]


def test_the_monitors_ids_stay_below_two_to_the_53() -> None:
    guest = ready()
    guest._next_id = MAX_ID
    assert [json.loads(guest.request_upscale())["id"] for _ in range(2)] == [MAX_ID, 1]


@pytest.mark.parametrize(
    "answer",
    [
        '"type":"UpscaleConfirmation"',
        '"type":"HealthCheck"',
        '"type":"UpscaleRequest"',
        '"type":"InvalidMessage","error":"what?"',
        '"type":"InternalError","error":"hook failed"',
        '"type":"Nonsense"',
    ],
)
def test_any_other_answer_under_a_waiters_id_ends_the_call_with_an_error(answer: str) -> None:
    agent = opened()
    call_id, _ = agent.call(DownscaleRequest(1.0, 1))
    effects = agent.receive(f'{{{answer},"id":{call_id}}}'.encode())
    assert isinstance(effects[0], CallFailed)
    assert effects[0].call_id == call_id
    assert agent.waiters_size == 0
    assert agent.is_open
    assert len(effects) == (2 if "Nonsense" in answer else 1)


def test_the_text_of_an_internal_error_reaches_the_caller() -> None:
    agent = opened()
    call_id, _ = agent.call(UpscaleNotification(1.0, 1))
    (failure,) = agent.receive(GuestConnection.report_failure(call_id, "cache hook failed"))
    assert isinstance(failure, CallFailed)
    assert "cache hook failed" in failure.problem


@pytest.mark.parametrize("kind", ["HealthCheck", "UpscaleConfirmation", "DownscaleResult", "Nonsense"])
def test_an_answer_to_nothing_or_an_unknown_type_gets_an_invalid_message_and_lives_on(kind: str) -> None:
    agent = opened()
    complaint = sent(agent.receive(f'{{"type":"{kind}","id":44}}'.encode()))
    assert (complaint["type"], complaint["id"]) == ("InvalidMessage", 44)
    assert agent.is_open


@pytest.mark.parametrize("kind", ["InvalidMessage", "InternalError"])
def test_a_complaint_about_nothing_is_not_answered(kind: str) -> None:
    data = f'{{"type":"{kind}","id":44,"error":"x"}}'.encode()
    assert opened().receive(data) == []
    assert ready().receive(data) == []


def test_a_late_answer_counts_as_one_that_nobody_waits_for() -> None:
    agent = opened()
    call_id, _ = agent.call(HealthCheck())
    agent.forget(call_id)
    agent.forget(call_id)
    assert agent.waiters_size == 0
    assert sent(agent.receive(b'{"type":"HealthCheck","id":2}'))["type"] == "InvalidMessage"


@pytest.mark.parametrize(("data", "code"), [(b"x", 1007), (b"[]", 1011), (b" " * (MAX_READ_BYTES + 1), 1009)])
def test_an_unreadable_message_closes_and_releases_all_waiters(data: bytes, code: int) -> None:
    agent = opened()
    agent.call(HealthCheck())
    agent.call(HealthCheck())
    close, *released = agent.receive(data)
    assert isinstance(close, Close)
    assert close.code == code
    assert released == [CallFailed(2, close.problem), CallFailed(4, close.problem)]
    assert (agent.is_open, agent.waiters_size) == (False, 0)
    assert agent.receive(b'{"type":"UpscaleRequest","id":1}') == []


def test_a_field_of_a_wrong_type_is_complained_of_and_then_the_connection_ends() -> None:
    agent = opened()
    agent.call(DownscaleRequest(1.0, 1))
    complaint, close, released = agent.receive(b'{"type":"DownscaleResult","id":2,"Ok":"yes"}')
    assert sent([complaint])["id"] == 2
    assert isinstance(close, Close)
    assert close.code == 1011
    assert isinstance(released, CallFailed)


def test_the_end_of_the_connection_releases_waiters_once() -> None:
    agent = opened()
    agent.call(HealthCheck())
    assert agent.end("peer closed") == [CallFailed(2, "peer closed")]
    assert agent.end("again") == []
    assert not agent.is_open


@pytest.mark.parametrize(
    "answer",
    [
        b'{"version": 2}',
        b'{"version": 0}',
        b'{"version": true}',
        b'{"version": "1"}',
        b'{"version": 1.0}',
        b"{}",
        b"[]",
        b"x",
        b'{"error": "no"}',
        b'{"error": "no", "version": 1}',
        b'{"error": 5, "version": 1}',
    ],
)
def test_the_agent_ends_a_handshake_it_cannot_accept_with_1002(answer: bytes) -> None:
    agent = AgentConnection()
    (close,) = agent.receive(answer)
    assert isinstance(close, Close)
    assert close.code == 1002
    assert not agent.is_open


def test_an_empty_error_and_other_cases_do_not_spoil_the_handshake() -> None:
    assert AgentConnection().receive(b'{"Version": 1, "Error": null}') == [Opened(1)]
    assert AgentConnection().receive(b'{"version": 1, "error": ""}') == [Opened(1)]


@pytest.mark.parametrize(
    "opening", [b'{"min":2,"max":9}', b'{"min":0,"max":0}', b'{"min":1,"max":0}', b"{}", b"x"]
)
def test_the_monitor_refuses_a_range_without_a_shared_version_with_an_error_and_1002(opening: bytes) -> None:
    guest = GuestConnection()
    answer, close = guest.receive(opening)
    assert sent([answer])["error"]
    assert isinstance(close, CloseAgent)
    assert close.code == 1002
    assert guest.receive(b'{"min":1,"max":1}') == []


def test_the_monitor_picks_the_highest_version_that_both_speak() -> None:
    assert sent(GuestConnection().receive(b'{"min":0,"max":7}')) == {"version": 1}


def test_an_opening_that_is_too_long_is_closed_with_1009_on_either_side() -> None:
    data = b" " * (MAX_READ_BYTES + 1)
    assert [effect.code for effect in GuestConnection().receive(data) if isinstance(effect, CloseAgent)] == [
        1009
    ]
    assert [effect.code for effect in AgentConnection().receive(data) if isinstance(effect, Close)] == [1009]


def test_the_monitor_complains_of_an_unknown_type_and_lives_on() -> None:
    guest = ready()
    complaint = sent(guest.receive(b'{"type":"UpscaleRequest","id":8,"content":{}}'))
    assert (complaint["type"], complaint["id"]) == ("InvalidMessage", 8)
    assert guest.is_open


@pytest.mark.parametrize(
    ("data", "code", "count"),
    [(b"x", 1007, 1), (b"{}", 1011, 1), (b'{"type":"DownscaleRequest","id":2,"content":7}', 1011, 2)],
)
def test_the_monitor_ends_the_connection_by_the_same_rules(data: bytes, code: int, count: int) -> None:
    guest = ready()
    effects = guest.receive(data)
    assert len(effects) == count
    assert isinstance(effects[-1], CloseAgent)
    assert effects[-1].code == code
    assert not guest.is_open
