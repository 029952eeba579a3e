"""The informant protocol against rubbish, and its set against any order of events."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from app.errors import InvalidInput
from app.protocols.informant import (
    MAX_BODY_BYTES,
    AgentAnswer,
    AgentDesc,
    AgentRequest,
    RawResources,
    decode_agent_answer,
    decode_agent_desc,
    decode_expected_id,
    decode_registered,
    decode_resources,
    encode_agent_answer,
    encode_agent_desc,
    encode_resources,
    parse_address,
)
from app.protocols.informant_set import (
    AgentGone,
    AgentSet,
    CallAgent,
    Refusal,
    RegistrationEnded,
    SetEffect,
    SetSettings,
)

DECODERS: list[Callable[[bytes], object]] = [
    decode_agent_desc,
    decode_resources,
    decode_expected_id,
    decode_agent_answer,
    decode_registered,
]
WORDS = [
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b"\\",
    b":",
    b",",
    b"null",
    b"1e999",
    b"-0",
    b'"agentID"',
    b"\xff",
    b"NaN",
]
_KEYS = [
    "agentID",
    "agentServeAddr",
    "minProtoVersion",
    "cpu",
    "memory",
    "data",
    "sequenceNumber",
    "expectedID",
]
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=4),
    max_leaves=8,
)
_UUIDS = st.uuids().map(str)


@pytest.mark.parametrize("decode", DECODERS)
@given(data=st.binary(max_size=200) | st.lists(st.sampled_from(WORDS), max_size=60).map(b"".join))
def test_rubbish_raises_the_declared_error_and_no_other(
    decode: Callable[[bytes], object], data: bytes
) -> None:
    try:
        decode(data)
    except InvalidInput:
        return


@pytest.mark.parametrize("decode", DECODERS)
@given(value=_VALUES)
def test_json_of_any_shape_raises_the_declared_error_and_no_other(
    decode: Callable[[bytes], object], value: object
) -> None:
    try:
        decode(json.dumps(value).encode())
    except InvalidInput:
        return


@pytest.mark.parametrize("decode", DECODERS)
@pytest.mark.parametrize("piece", [b"[", b'{"a":', b'"', b"\\", b"9", b'"\\', b"{}", b" "])
def test_the_longest_rubbish_is_read_in_bounded_time(decode: Callable[[bytes], object], piece: bytes) -> None:
    for prefix in (b"", b'{"a":'):
        data = prefix + piece * (MAX_BODY_BYTES // len(piece))
        try:
            decode(data[:MAX_BODY_BYTES])
        except InvalidInput:
            continue


@given(text=st.text(max_size=40))
def test_an_address_is_taken_apart_without_loss_or_refused(text: str) -> None:
    try:
        host, port = parse_address(text)
    except InvalidInput:
        return
    assert text in (f"{host}:{port}", f"[{host}]:{port}")
    assert not set(host) & set("/@?#[] \r\n")


@given(
    agent_id=_UUIDS,
    address=st.text(max_size=30),
    low=st.integers(0, 2**32 - 1),
    high=st.integers(0, 2**32 - 1),
)
def test_descriptions_survive_the_wire(agent_id: str, address: str, low: int, high: int) -> None:
    desc = AgentDesc(agent_id, address, low, high)
    assert decode_agent_desc(encode_agent_desc(desc)) == desc


@given(milli_cpu=st.integers(0, 2**40), mem=st.integers(0, 2**62))
def test_sizes_survive_the_wire(milli_cpu: int, mem: int) -> None:
    assert decode_resources(encode_resources(RawResources(milli_cpu, mem))) == RawResources(milli_cpu, mem)


@given(agent_id=_UUIDS, number=st.integers(0, 2**64 - 1))
def test_answers_survive_the_wire(agent_id: str, number: int) -> None:
    answer = AgentAnswer(agent_id, number)
    assert decode_agent_answer(encode_agent_answer(answer)) == answer


_NAMES = [f"{n}0000000-0000-4000-8000-000000000000" for n in range(1, 5)]


class SetMachine(RuleBasedStateMachine):
    """Any order of registrations, answers, failures, late ones included; a plain model beside it."""

    @initialize(failed_checks=st.integers(1, 2))
    def begin(self, failed_checks: int) -> None:
        self.now = 0.0
        self.set = AgentSet(SetSettings(failed_checks=failed_checks))
        self.out: dict[int, CallAgent] = {}
        self.ended: list[CallAgent] = []
        self.pending: set[int] = set()
        self.known: dict[str, int] = {}
        self.numbers = 0
        self.acting: set[int] = set()

    def take(self, effects: list[SetEffect]) -> None:
        for effect in effects:
            match effect:
                case CallAgent(number, registration, _, request, _):
                    if request is AgentRequest.RESUME:
                        suspending = [c for c in self.out.values() if c.request is AgentRequest.SUSPEND]
                        assert suspending == [], "another agent is resumed during a suspend"
                        self.acting.add(registration)
                    self.out[number] = effect
                case AgentGone(registration, desc, _):
                    gone = [call for call in self.out.values() if call.registration == registration]
                    for call in gone:
                        del self.out[call.number]
                    self.ended += gone
                    self.acting.discard(registration)
                    assert self.known.pop(desc.agent_id) == registration
                case RegistrationEnded(registration, _):
                    self.pending.remove(registration)
                case _:
                    continue

    @rule(name=st.sampled_from(_NAMES), is_allowed=st.booleans())
    def register(self, name: str, is_allowed: bool) -> None:
        desc = AgentDesc(name, "10.0.0.1:80", 1, 1)
        outcome = self.set.register(desc, caller="10.0.0.1", is_allowed=is_allowed)
        if isinstance(outcome, Refusal):
            assert outcome.status == (409 if name in self.known else 403)
            return
        assert name not in self.known
        self.known[name] = outcome[0]
        self.pending.add(outcome[0])
        self.take(outcome[1])

    @rule(name=st.sampled_from(_NAMES))
    def unregister(self, name: str) -> None:
        current = self.set.current
        outcome = self.set.unregister(AgentDesc(name, "10.0.0.1:80", 1, 1))
        assert isinstance(outcome, Refusal) == (name not in self.known)
        if not isinstance(outcome, Refusal):
            assert outcome[0] == (current is not None and current.desc.agent_id == name)
            self.take(outcome[1])

    @precondition(lambda self: self.out)
    @rule(data=st.data(), kind=st.sampled_from(["good", "good", "good", "old", "zero", "wrong id", "failed"]))
    def end_a_call(self, data: st.DataObject, kind: str) -> None:
        call = self.out.pop(data.draw(st.sampled_from(sorted(self.out))))
        self.ended.append(call)
        if call.request is AgentRequest.SUSPEND:
            self.acting.discard(call.registration)
        if kind == "failed":
            self.take(self.set.failed(self.now, call.number, "on purpose"))
            return
        self.numbers += 1
        number = {"old": 1, "zero": 0}.get(kind, self.numbers)
        agent_id = _NAMES[0][::-1] if kind == "wrong id" else call.desc.agent_id
        self.take(self.set.answered(self.now, call.number, AgentAnswer(agent_id, number)))

    @precondition(lambda self: self.ended)
    @rule(data=st.data())
    def a_late_answer_does_nothing(self, data: st.DataObject) -> None:
        call = data.draw(st.sampled_from(self.ended))
        assert self.set.answered(self.now, call.number, AgentAnswer(call.desc.agent_id, 9**9)) == []
        assert self.set.failed(self.now, call.number, "late") == []

    @rule(seconds=st.sampled_from([1.0, 5.0, 10.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.take(self.set.tick(self.now))

    @invariant()
    def the_calls_are_those_that_are_out(self) -> None:
        assert self.set.calls_size == len(self.out)

    @invariant()
    def every_agent_is_known_by_its_id(self) -> None:
        for name in _NAMES:
            agent = self.set.get(name)
            assert (agent and agent.registration) == self.known.get(name)

    @invariant()
    def at_most_two_agents_were_told_to_act_at_once(self) -> None:
        assert len(self.acting) <= 2

    @invariant()
    def the_newest_is_current_unless_a_change_over_runs(self) -> None:
        is_changing = any(call.request is not AgentRequest.ID for call in self.out.values())
        newest = self.set.registered[-1] if self.set.registered else None
        assert is_changing or self.set.current is newest

    @invariant()
    def whoever_is_registered_is_checked_now_or_later(self) -> None:
        checking = {c.registration for c in self.out.values() if c.request is AgentRequest.ID}
        for agent in self.set.registered:
            assert (agent.check_due is None) == (agent.registration in checking)

    @invariant()
    def every_registration_that_waits_is_being_checked(self) -> None:
        checking = {c.registration for c in self.out.values() if c.request is AgentRequest.ID}
        assert self.pending <= checking


TestAgentSet = SetMachine.TestCase
