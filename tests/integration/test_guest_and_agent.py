"""The guest daemon and our own agents' sides, against each other over real sockets."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest
import requests

from app.adapters.monitor_ws import MonitorDialer
from app.core.resources import resources
from app.errors import PeerRefused
from app.guest.hooks import Hook
from app.guest.http_messages import Request, Response, Upgrade
from app.guest.server import Server
from app.ports.peers import MonitorCallbacks
from app.ports.vm import Address
from app.protocols.informant_agent import InformantAgent, Reply, Standing
from tests.fakes.guest_on_loop import GIB, GuestOnLoop
from tests.fleet_process import until

A = "aaaaaaaa-0000-4000-8000-000000000000"
B = "bbbbbbbb-0000-4000-8000-000000000000"
LONG = 30.0


@pytest.fixture
def guest() -> Iterator[GuestOnLoop]:
    one = GuestOnLoop()
    yield one
    one.close()


class Watched:
    """What a session told its runner."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.checked = threading.Event()
        self.exits: list[str] = []

    def callbacks(self) -> MonitorCallbacks:
        return MonitorCallbacks(self.asked.set, self.checked.set, self.exits.append)


def test_our_agent_asks_our_monitor_and_is_asked_for_memory(guest: GuestOnLoop) -> None:
    watched = Watched()
    dialer = MonitorDialer(LONG, health_period_s=0.05)
    session = dialer.connect(Address("127.0.0.1", guest.port), watched.callbacks(), timeout_s=LONG)
    session.serve_in_background()
    try:
        assert watched.checked.wait(LONG)
        until(lambda: session.downscale(resources(1, 4), GIB, timeout_s=LONG).is_allowed, "allowed")
        assert not session.downscale(resources(1, 1), GIB, timeout_s=LONG).is_allowed
        guest.used_bytes = 5 * GIB
        assert watched.asked.wait(LONG)
        session.upscale(resources(2, 16), GIB, timeout_s=LONG)
        assert session.waiters_size == 0
    finally:
        session.close()


def test_a_second_agent_of_ours_ends_the_session_of_the_first(guest: GuestOnLoop) -> None:
    watched = [Watched(), Watched()]
    dialer = MonitorDialer(LONG)
    first, second = (
        dialer.connect(Address("127.0.0.1", guest.port), each.callbacks(), timeout_s=LONG) for each in watched
    )
    for session in (first, second):
        session.serve_in_background()
    try:
        until(lambda: first.exited, "the first has ended")
        assert len(watched[0].exits) == 1
        second.upscale(resources(2, 8), GIB, timeout_s=LONG)
    finally:
        first.close()
        second.close()


def test_a_hook_that_fails_is_a_refusal_to_our_agent_and_the_session_lives() -> None:
    guest = GuestOnLoop(hooks=(Hook(("/bin/false",)), None))
    session = MonitorDialer(LONG).connect(
        Address("127.0.0.1", guest.port), Watched().callbacks(), timeout_s=LONG
    )
    session.serve_in_background()
    try:
        for _ in range(2):
            with pytest.raises(PeerRefused, match="ended with status 1"):
                session.upscale(resources(2, 8), GIB, timeout_s=LONG)
        assert not session.exited
    finally:
        session.close()
        guest.close()


class ServedAgent:
    """An `InformantAgent` behind a server of its own, on the guest's loop."""

    def __init__(self, guest: GuestOnLoop, agent_id: str) -> None:
        self._guest = guest
        self._waiting: dict[int, asyncio.Future[Reply]] = {}
        self._last_ticket = 0
        self._server = Server(self._handle)
        self.port = guest.run(self._server.start("127.0.0.1", 0))[1]
        self.agent = InformantAgent(agent_id, f"127.0.0.1:{self.port}", time.monotonic())

    def register(self) -> int:
        body = self.agent.begin_registration(time.monotonic())
        assert body is not None
        answer = requests.post(self._guest.url + "/register", data=body, timeout=60)
        self.agent.registration_answered(time.monotonic(), answer.status_code, answer.content, jitter=0)
        return answer.status_code

    def end_effect(self) -> None:
        async def end() -> None:
            self._settle(self.agent.end_effect())

        self._guest.run(end())

    def let_go(self) -> requests.Response:
        return requests.delete(self._guest.url + "/unregister", data=self.agent.let_go(), timeout=60)

    def close(self) -> None:
        self._guest.run(self._server.close(0.1))

    async def _handle(self, request: Request) -> Response | Upgrade:
        self._last_ticket += 1
        ticket = self._last_ticket
        ended: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting[ticket] = ended
        self._settle(self.agent.handle(time.monotonic(), ticket, request.method, request.path, request.body))
        try:
            reply = await ended
        finally:
            self._waiting.pop(ticket, None)
            self.agent.forget(ticket)
        return Response(reply.status, reply.body, "application/json")

    def _settle(self, replies: list[Reply]) -> None:
        for reply in replies:
            self._waiting[reply.ticket].set_result(reply)


def test_our_agents_take_turns_at_our_informant(guest: GuestOnLoop) -> None:
    first, second = ServedAgent(guest, A), ServedAgent(guest, B)
    try:
        assert first.register() == 200
        assert first.agent.metrics_port == 9100
        until(lambda: first.agent.is_active, "the first is resumed")
        assert first.agent.begin_effect()
        assert second.register() == 200
        until(lambda: second.agent.is_active, "the second is resumed")
        until(lambda: not first.agent.is_active, "the first is barred")
        assert not first.agent.begin_effect()
        first.end_effect()
        until(lambda: second.agent.begin_effect(), "the second acts")
        second.end_effect()
        assert second.let_go().json() == {"wasActive": True}
        until(lambda: first.agent.is_active, "the first is resumed again")
    finally:
        first.close()
        second.close()


def test_an_agent_of_ours_that_is_let_go_answers_nothing_more(guest: GuestOnLoop) -> None:
    one = ServedAgent(guest, A)
    try:
        one.register()
        until(lambda: one.agent.is_active, "resumed")
        assert one.let_go().json() == {"wasActive": True}
        assert one.agent.standing is Standing.LET_GO
        assert requests.get(f"http://127.0.0.1:{one.port}/id", timeout=60).status_code == 404
        assert guest.agents.get(A) is None
    finally:
        one.close()
