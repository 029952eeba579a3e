"""The exchanges on the protocols' pages are what our two sides say to each other, word for word."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from app.protocols.informant import (
    AgentRequest,
    decode_agent_answer,
    decode_agent_desc,
    decode_resources,
    encode_downscale_result,
    encode_expected_id,
    encode_registered,
    encode_unregistered,
)
from app.protocols.informant_agent import InformantAgent, Reply
from app.protocols.informant_set import AgentSet, CallAgent, Refusal, RegistrationEnded, SetEffect
from app.protocols.memory_policy import MIB, MemoryPolicy
from app.protocols.monitor_agent import AgentConnection
from app.protocols.monitor_agent import Send as SendToMonitor
from app.protocols.monitor_guest import DownscaleAsked, GuestConnection, SendToAgent, UpscaleGranted
from app.protocols.monitor_wire import UnknownMessage, decode_from_agent

DOCS = Path(__file__).resolve().parents[3] / "docs"


def exchange(page: str) -> Iterator[str]:
    found = re.search(r"```exchange\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    assert found is not None
    lines = found[1].splitlines()
    assert len(lines) > 10
    yield from lines


class MonitorPair:
    """Both ends of a vm-monitor connection, and the guest's memory rule."""

    def __init__(self) -> None:
        self.agent = AgentConnection()
        self.monitor = GuestConnection()
        self.policy = MemoryPolicy(8192 * MIB)
        self.now = 0.0
        self.is_new = True
        self.said: list[bytes] = []

    def guest_holds(self, mib: int) -> None:
        for _ in range(5):
            self.now += 0.1
            if self.policy.record(self.now, mib * MIB):
                self.said.append(self.monitor.request_upscale())

    def agent_says(self, line: str) -> None:
        """What the page has the agent say, said by the agent itself where it can."""
        if self.is_new:
            data, self.is_new = self.agent.start(), False
        else:
            message = decode_from_agent(line.encode())[1]
            data = line.encode()
            if not isinstance(message, UnknownMessage):
                data = self.agent.call(message)[1]  # type: ignore[arg-type]
        assert json.loads(data) == json.loads(line)
        for effect in self.monitor.receive(data):
            match effect:
                case SendToAgent(answer):
                    self.said.append(answer)
                case UpscaleGranted(message_id, _, mem):
                    self.policy.resize(mem)
                    self.said.append(self.monitor.confirm_upscale(message_id))
                case DownscaleAsked(message_id, _, mem):
                    verdict = self.policy.judge_downscale(self.now, mem)
                    if verdict.is_allowed:
                        self.policy.resize(mem)
                    answer = self.monitor.answer_downscale(
                        message_id, is_allowed=verdict.is_allowed, status=verdict.status
                    )
                    self.said.append(answer)

    def monitor_says(self, line: str) -> None:
        answer = self.said.pop(0)
        assert json.loads(answer) == json.loads(line)
        effects = self.agent.receive(answer)
        assert not any(isinstance(effect, SendToMonitor) for effect in effects)


def test_the_page_of_the_monitor_protocol_is_what_both_sides_say() -> None:
    pair = MonitorPair()
    for line in exchange("protocol-monitor.md"):
        who, _, text = line.partition(" ")
        match who:
            case "guest":
                pair.guest_holds(int(text.split()[1]))
            case "agent":
                pair.agent_says(text.strip())
            case "monitor":
                pair.monitor_says(text.strip())
            case _:
                raise AssertionError(line)
    assert pair.said == []
    assert pair.agent.waiters_size == 0


Said = tuple[str, str, str]
"""From, to, and the text: a status or a method and a path, then a body."""


class InformantRound:
    """A set and two agents; what each has said and the page has not shown yet is `said`."""

    def __init__(self) -> None:
        self.set = AgentSet()
        self.policy = MemoryPolicy(8192 * MIB)
        for sample in range(5):
            self.policy.record(sample * 0.1, 1024 * MIB)
        self.agents = {
            name: InformantAgent(f"{name.lower() * 8}-0000-4000-8000-000000000000", f"10.0.0.{host}:20001", 0)
            for name, host in (("A", 7), ("B", 8))
        }
        self.names: dict[str, str] = {}
        self.calls: dict[str, list[CallAgent]] = {"A": [], "B": []}
        self.said: list[Said] = []

    def take(self, effects: list[SetEffect], registering: str) -> None:
        for effect in effects:
            if isinstance(effect, CallAgent):
                name = self.names[effect.desc.agent_id]
                self.calls[name].append(effect)
                text = f"{effect.request.method} {effect.request.path}"
                if effect.request is not AgentRequest.ID:
                    text += " " + encode_expected_id(effect.desc.agent_id).decode()
                self.said.append(("informant", name, text))
            elif isinstance(effect, RegistrationEnded):
                body = encode_registered(1, 9100)
                self.agents[registering].registration_answered(0, 200, body, jitter=0)
                self.answer(registering, 200, body)

    def answer(self, name: str, status: int, body: bytes) -> None:
        self.said.append(("informant", name, f"{status} {body.decode().strip()}"))

    def ask_informant(self, name: str, method: str, path: str, body: bytes) -> None:
        match method, path:
            case "POST", "/register":
                own = self.agents[name].begin_registration(0)
                assert own is None or json.loads(own) == json.loads(body)
                desc = decode_agent_desc(body)
                self.names[desc.agent_id] = name
                begun = self.set.register(desc, caller="10.0.0.7")
                if isinstance(begun, Refusal):
                    self.answer(name, begun.status, begun.text.encode())
                else:
                    self.take(begun[1], name)
            case "DELETE", "/unregister":
                own = self.agents[name].let_go()
                assert own is not None
                assert json.loads(own) == json.loads(body)
                ended = self.set.unregister(decode_agent_desc(body))
                assert not isinstance(ended, Refusal)
                self.answer(name, 200, encode_unregistered(was_active=ended[0]))
                self.take(ended[1], name)
            case "PUT", "/downscale":
                verdict = self.policy.judge_downscale(0.5, decode_resources(body).mem)
                result = encode_downscale_result(is_allowed=verdict.is_allowed, status=verdict.status)
                self.answer(name, 200, result)
            case "PUT", "/upscale":
                self.policy.resize(decode_resources(body).mem)
                self.answer(name, 200, b"{}")
            case _:
                raise AssertionError(path)

    def ask_agent(self, name: str, method: str, path: str, body: bytes) -> None:
        for reply in self.agents[name].handle(0, 1, method, path, body):
            assert isinstance(reply, Reply)
            self.said.append((name, "informant", f"{reply.status} {reply.body.decode()}"))

    def step(self, who: str, whom: str, text: str) -> None:
        """Check a line of the page against what was said, and let the other side act on it."""
        first, _, rest = text.partition(" ")
        if first.isdigit() or who == "informant":
            found = next(said for said in self.said if said[:2] == (who, whom) and same(said[2], text))
            self.said.remove(found)
        if first.isdigit():
            if whom == "informant":
                call = self.calls[who].pop(0)
                self.take(self.set.answered(0, call.number, decode_agent_answer(rest.encode())), who)
            return
        path, _, body = rest.partition(" ")
        ask = self.ask_informant if whom == "informant" else self.ask_agent
        ask(who if whom == "informant" else whom, first, path, body.encode())


def same(one: str, other: str) -> bool:
    """Whether two texts are the same but for the blanks in their JSON."""
    split = [text.partition("{") for text in (one, other)]
    if split[0][0] != split[1][0]:
        return False
    bodies = [brace + rest for _, brace, rest in split]
    return bodies[0] == bodies[1] if "" in bodies else bool(json.loads(bodies[0]) == json.loads(bodies[1]))


def test_the_page_of_the_informant_protocol_is_what_both_sides_say() -> None:
    everyone = InformantRound()
    for line in exchange("protocol-informant.md"):
        found = re.fullmatch(r"(\w+) → (\w+)  (.+)", line)
        assert found is not None, line
        everyone.step(found[1], found[2], found[3])
    assert everyone.said == []
    assert everyone.calls == {"A": [], "B": []}
