"""The monitor protocol: both cores are total against rubbish and never lose a call."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from app.protocols.monitor_agent import AgentConnection, CallAnswered, CallFailed, Close
from app.protocols.monitor_guest import CloseAgent, GuestConnection
from app.protocols.monitor_wire import DownscaleRequest, HealthCheck, UpscaleNotification

ANSWERS = ["HealthCheck", "UpscaleConfirmation", "DownscaleResult", "InvalidMessage", "InternalError"]
REQUESTS = ["UpscaleNotification", "DownscaleRequest", "UpscaleRequest", "Nonsense"]
TYPES = st.sampled_from([*ANSWERS, *REQUESTS])
LEAVES = st.none() | st.booleans() | st.integers(-5, 20) | st.floats() | st.text(max_size=5)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner)
)
KEYS = st.sampled_from(["Ok", "ok", "Status", "error", "content", "granted", "target", "cpu", "mem"])
DOCUMENTS = st.fixed_dictionaries(
    {}, optional={"type": TYPES | VALUES, "id": st.integers(0, 12) | VALUES}
).flatmap(
    lambda head: st.dictionaries(KEYS, VALUES | st.dictionaries(KEYS, VALUES)).map(
        lambda rest: {**rest, **head}
    )
)
MESSAGES = st.binary(max_size=40) | DOCUMENTS.map(lambda document: json.dumps(document).encode())
QUESTIONS = st.sampled_from([HealthCheck(), UpscaleNotification(1.0, 1), DownscaleRequest(1.0, 1)])


@given(st.lists(MESSAGES | QUESTIONS, max_size=20))
def test_every_call_of_an_agent_ends_exactly_once(steps: list[object]) -> None:
    agent = AgentConnection()
    agent.receive(b'{"version":1}')
    asked: list[int] = []
    ended: list[int] = []
    for step in steps:
        if isinstance(step, bytes):
            effects = agent.receive(step)
            closes = [effect for effect in effects if isinstance(effect, Close)]
            assert bool(closes) <= (not agent.is_open)
            ended += [effect.call_id for effect in effects if isinstance(effect, CallAnswered | CallFailed)]
        elif agent.is_open and isinstance(step, HealthCheck | UpscaleNotification | DownscaleRequest):
            asked.append(agent.call(step)[0])
    ended += [failure.call_id for failure in agent.end("over")]
    assert sorted(ended) == asked == [2 * (n + 1) for n in range(len(asked))]
    assert agent.waiters_size == 0


@given(st.lists(MESSAGES, max_size=10), st.booleans())
def test_a_monitor_survives_or_closes_whatever_it_is_sent(messages: list[bytes], is_greeted: bool) -> None:
    guest = GuestConnection()
    if is_greeted:
        guest.receive(b'{"min":1,"max":1}')
    effects = [effect for message in messages for effect in guest.receive(message)]
    assert sum(isinstance(effect, CloseAgent) for effect in effects) == (not guest.is_open and bool(messages))
