"""The agents' side of the informant protocol against rubbish, and in any order of events."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from app.adapters.redis_agent_set import MAX_AGENT_BYTES, read_agent, write_agent
from app.errors import InvalidInput
from app.ports.informants import AgentAnswer
from app.protocols.access import AllowedAddresses, parse_network
from app.protocols.agent_store import MAX_NAME_CHARACTERS, StoredAgent
from app.protocols.informant import (
    MAX_BODY_BYTES,
    AgentDesc,
    AgentRequest,
    decode_agent_answer,
    encode_expected_id,
    encode_registered,
)
from app.protocols.informant_agent import AgentTimes, InformantAgent, Reply, Standing
from app.web.agent_ports import AgentApplication

ID = "6a1c5f6e-1111-4222-8333-0123456789ab"
OTHER = "6a1c5f6e-1111-4222-8333-0123456789ac"
METHODS = st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "get", ""]) | st.text(max_size=8)
PATHS = st.sampled_from(["/id", "/suspend", "/resume", "/", "//id", "/ID", "/id/"]) | st.text(max_size=8)
BODIES = (
    st.binary(max_size=64)
    | st.sampled_from([b"{}", b"null", b"[" * 100, b'{"expectedID":null}', b'{"expectedID":1}', b"\xff"])
    | st.sampled_from([ID, OTHER]).map(encode_expected_id)
)
UUIDS = st.uuids().map(str)


def an_agent() -> InformantAgent:
    one = InformantAgent(ID, "10.0.0.1:80", 0.0)
    one.begin_registration(0.0)
    one.registration_answered(0.0, 200, encode_registered(1, 9100), jitter=0)
    return one


@given(st.lists(st.tuples(METHODS, PATHS, BODIES), max_size=20))
def test_any_request_has_one_answer_and_numbers_rise(requests: list[tuple[str, str, bytes]]) -> None:
    one, last = an_agent(), 0
    for ticket, (method, path, body) in enumerate(requests):
        (reply,) = one.handle(float(ticket), ticket, method, path, body)
        assert reply.ticket == ticket
        assert reply.status in (200, 400, 404, 405)
        if reply.status == 200:
            answer = decode_agent_answer(reply.body)
            assert answer.agent_id == ID
            assert answer.sequence_number > last
            last = answer.sequence_number


@given(METHODS, PATHS, BODIES | st.integers(MAX_BODY_BYTES - 1, MAX_BODY_BYTES + 5).map(bytes), st.text())
def test_the_server_hands_on_what_is_bounded_and_from_the_informant(
    method: str, path: str, body: bytes, peer: str
) -> None:
    handed: list[bytes] = []

    def handle(method: str, path: str, body: bytes) -> AgentAnswer:
        handed.append(body)
        (reply,) = an_agent().handle(0.0, 1, method, path, body)
        return AgentAnswer(reply.status, reply.body)

    for caller, is_allowed in (("10.0.0.2", True), ("::ffff:10.0.0.2", True), (peer, False)):
        handed.clear()
        status, content = _serve(handle, caller, method, path, body)
        if not is_allowed:
            assert (status, handed) == ("403", [])
        elif len(body) > MAX_BODY_BYTES:
            assert (status, handed) == ("413", [])
        else:
            assert status in ("200", "400", "404", "405")
            assert handed == [body]
        assert len(content) < 4096


def _serve(
    handle: Callable[[str, str, bytes], AgentAnswer], peer: str, method: str, path: str, body: bytes
) -> tuple[str, bytes]:
    application = AgentApplication(AllowedAddresses((parse_network("10.0.0.2"),)), handle)
    environ: dict[str, Any] = {
        "REMOTE_ADDR": peer,
        "REQUEST_METHOD": method,
        "PATH_INFO": path,
        "wsgi.input": io.BytesIO(body),
    }
    statuses: list[str] = []

    def start_response(
        status: str, headers: list[tuple[str, str]], _: Any = None
    ) -> Callable[[bytes], object]:
        statuses.append(status)
        return lambda data: None

    content = b"".join(application.serve(environ, start_response))
    return statuses[0][:3], content


@given(st.binary(max_size=200) | st.sampled_from([b"{}", b"[]", b"[" * 5000, b'{"name":1}', b'{"name":"x"}']))
def test_rubbish_in_redis_is_invalid_input_and_nothing_else(data: bytes) -> None:
    try:
        desc, name = read_agent(data)
    except InvalidInput:
        return
    assert read_agent(write_agent(StoredAgent(desc, name))) == (desc, name)


@given(UUIDS, st.text(max_size=300), st.text(), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_an_agent_is_read_from_redis_as_it_was_written(
    agent_id: str, address: str, name: str, low: int, high: int
) -> None:
    agent = StoredAgent(AgentDesc(agent_id, address, low, high), name)
    data = write_agent(agent)
    assert len(data) <= MAX_AGENT_BYTES
    readable = name[:MAX_NAME_CHARACTERS].encode("utf-8", "replace").decode()
    desc, read = read_agent(data)
    assert read == readable
    assert (desc.agent_id, desc.min_version, desc.max_version) == (agent_id, low, high)
    assert desc.address == address.encode("utf-8", "replace").decode()


class AgentMachine(RuleBasedStateMachine):
    """Any order of requests, effects, registrations: who may act, and who is answered."""

    def __init__(self) -> None:
        super().__init__()
        self.agent = InformantAgent(ID, "h:1", 0.0, AgentTimes())
        self.now = 0.0
        self.ticket = 0
        self.effects = 0
        self.told: str | None = None
        self.out: set[int] = set()
        self.numbers: list[int] = []
        self.desc = self.agent.desc

    def take(self, replies: list[Reply]) -> None:
        for reply in replies:
            self.out.discard(reply.ticket)
            if reply.status == 200:
                self.numbers.append(decode_agent_answer(reply.body).sequence_number)

    @rule(seconds=st.floats(0.0, 40.0))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(request=st.sampled_from(list(AgentRequest)), is_other=st.booleans())
    def ask(self, request: AgentRequest, is_other: bool) -> None:
        self.ticket += 1
        body = encode_expected_id(OTHER if is_other else self.agent.desc.agent_id)
        replies = self.agent.handle(self.now, self.ticket, request.method, request.path, body)
        if not replies:
            assert request is AgentRequest.SUSPEND
            assert self.effects
            self.out.add(self.ticket)
        is_heard = self.agent.standing in (Standing.REGISTERED, Standing.REGISTERING)
        if is_heard and not is_other and request is not AgentRequest.ID:
            self.told = request.name
        self.take(replies)

    @rule()
    def begin(self) -> None:
        allowed = self.agent.is_active
        assert self.agent.begin_effect() is allowed
        self.effects += allowed

    @rule()
    def end(self) -> None:
        if self.effects:
            self.effects -= 1
            self.take(self.agent.end_effect())
            if not self.effects:
                assert not self.out, "every suspend is answered with the last effect"

    @rule()
    def register(self) -> None:
        if self.agent.begin_registration(self.now) is not None:
            self.told = None if self.told == "RESUME" else self.told

    @rule(status=st.sampled_from([None, 200, 400, 409, 503]), jitter=st.floats(0, 1))
    def answer(self, status: int | None, jitter: float) -> None:
        was_registering = self.agent.standing is Standing.REGISTERING
        self.agent.registration_answered(self.now, status, encode_registered(1, 1), jitter=jitter)
        if was_registering and status == 409 and self.agent.is_active:
            self.told = "RESUME"

    @rule(jitter=st.floats(0, 1))
    def doubt(self, jitter: float) -> None:
        self.agent.doubt(self.now, jitter=jitter)

    @rule(ticket=st.integers(1, 50))
    def forget(self, ticket: int) -> None:
        self.agent.forget(ticket)
        self.out.discard(ticket)

    @rule()
    def let_go(self) -> None:
        if self.now > 200:
            self.agent.let_go()

    @invariant()
    def only_a_resumed_and_registered_agent_may_act(self) -> None:
        if self.agent.is_active:
            assert self.told == "RESUME"
            assert self.agent.standing in (Standing.REGISTERED, Standing.REGISTERING)
        if self.agent.is_suspended:
            assert not self.agent.is_active

    @invariant()
    def numbers_rise_from_one(self) -> None:
        assert self.numbers == sorted(set(self.numbers))
        assert all(number >= 1 for number in self.numbers)

    @invariant()
    def there_is_always_a_next_look_unless_it_is_over_or_under_way(self) -> None:
        if self.agent.standing in (Standing.REGISTERED, Standing.UNREGISTERED):
            due = self.agent.due()
            assert due is not None
            assert due <= self.now + 121


TestAgentMachine = AgentMachine.TestCase
