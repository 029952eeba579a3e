"""`vmscaler informant register` at work: an agent with a server of its own, until it is told to end.

Imported after the standard library has been made cooperative: all of it runs in greenlets of one thread, and
the agent's state changes between two waits only.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING

import click

from app.adapters.clock import SystemClock
from app.cli.amounts import PeerUrl, host_and_port
from app.cli.by_hand import TEXT_CHARACTERS, Asking, outcome_of
from app.cli.informant_asking import ask_informant, exchange_with_informant, read_answer, refusal
from app.cli.server_options import Listening
from app.errors import PeerError, PeerUnreachable
from app.ports.runtime import Signal
from app.ports.vm import Address
from app.protocols.informant import (
    MAX_BODY_BYTES,
    PROTOCOL_VERSION,
    AgentDesc,
    decode_registered,
    decode_unregistered,
    encode_agent_desc,
)
from app.protocols.informant_agent import InformantAgent, Standing
from app.protocols.printable import printable
from app.web.protection import Protection
from app.web.replies import Reply, read_body
from app.web.server import WebServer

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

MAX_WAIT_S = 1.0
"""Between two looks at whether the informant is still heard."""


def run_session(
    url: PeerUrl,
    listening: Listening,
    agent_id: str,
    asking: Asking,
    stop: Signal,
    stay_s: float | None,
) -> int:
    """Register, stay until `stop` or for `stay_s`, unregister; gives the exit status.

    Args:
        listening: where the informant calls back.

    Raises:
        ConfigurationError: that address can't be listened on.
    """
    host, port, callers = listening
    server = WebServer(
        lambda environ, start: session.serve(environ, start), host, port, protection=Protection(callers)
    )
    server.start()
    try:
        address = host_and_port(Address(host, server.port))
        session = InformantSession(
            url, AgentDesc(agent_id, address, PROTOCOL_VERSION, PROTOCOL_VERSION), asking
        )
        return session.run(stop, stay_s)
    finally:
        server.stop()


class InformantSession:
    """One agent at one informant; says what becomes of it, a line each."""

    def __init__(self, url: PeerUrl, desc: AgentDesc, asking: Asking) -> None:
        self._url = url
        self._desc = desc
        self._asking = asking
        self._clock = SystemClock()
        self._agent = InformantAgent(desc.agent_id, desc.address, self._clock.monotonic())
        self._was_active = False

    def run(self, stop: Signal, stay_s: float | None) -> int:
        """See `run_session`."""
        ends_at = math.inf if stay_s is None else self._clock.monotonic() + stay_s
        try:
            self._register()
            while not stop.is_set() and (rest_s := ends_at - self._clock.monotonic()) > 0:
                stop.wait(min(rest_s, MAX_WAIT_S))
                due = self._agent.due()
                if due is not None and self._clock.monotonic() >= due:
                    self._say("silent", "the informant is not heard any more; registering again")
                    self._register()
            self._unregister()
        except PeerError as err:
            outcome = outcome_of(err)
            text = printable(str(err), TEXT_CHARACTERS)
            if self._asking.is_json:
                self._say(outcome.word, text)
            else:
                click.echo(f"vmscaler: {text}", err=True)
            return outcome.status
        return 0

    def serve(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer the informant (WSGI). No effect is ever in flight that a `/suspend` waits for."""
        body = read_body(environ, MAX_BODY_BYTES)
        if body is None:
            text = f"the body is longer than {MAX_BODY_BYTES} bytes".encode()
            return Reply(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text, is_last=True).send(start_response)
        method, path = environ["REQUEST_METHOD"], environ.get("PATH_INFO") or "/"
        self._asking.trace.received(body, f"{method} {path}")
        answer = self._agent.handle(self._clock.monotonic(), 0, method, path, body)[0]
        self._asking.trace.sent(answer.body, str(answer.status))
        self._say_standing()
        kind = "application/json" if answer.status == HTTPStatus.OK else "text/plain"
        return Reply(HTTPStatus(answer.status), answer.body, kind).send(start_response)

    def _register(self) -> None:
        """Raises PeerError: we are not registered."""
        body = self._agent.begin_registration(self._clock.monotonic()) or encode_agent_desc(self._desc)
        try:
            status, answer = exchange_with_informant(self._url, "POST", "/register", body, self._asking)
        except PeerUnreachable:
            raise
        except PeerError:
            self._abandon()
            raise
        self._agent.registration_answered(self._clock.monotonic(), status, answer, jitter=0)
        if self._agent.standing is not Standing.REGISTERED:
            if status != HTTPStatus.OK:
                raise refusal(self._url, status, answer)
            self._abandon()
            read_answer(self._url, decode_registered, answer)
        port = self._agent.metrics_port
        text = (
            f"{self._desc.agent_id} at {self._desc.address}; the VM's metrics page: port {port or 'unknown'}"
        )
        self._say(
            "registered", text, agent_id=self._desc.agent_id, address=self._desc.address, metrics_port=port
        )
        self._say_standing()

    def _abandon(self) -> None:
        """We may be registered all the same: an informant that forgets us calls nobody."""
        self._agent.let_go()
        with contextlib.suppress(PeerError):
            exchange_with_informant(
                self._url, "DELETE", "/unregister", encode_agent_desc(self._desc), self._asking
            )

    def _unregister(self) -> None:
        """Raises PeerError: the informant had dropped us, or can't be asked."""
        body = self._agent.let_go() or encode_agent_desc(self._desc)
        answer = ask_informant(self._url, "DELETE", "/unregister", body, self._asking)
        was_active = read_answer(self._url, decode_unregistered, answer)
        self._say("unregistered", "was the current agent" if was_active else "", was_active=was_active)

    def _say_standing(self) -> None:
        """Say once each time that we become the current agent, and are it no more."""
        is_active = self._agent.is_active
        if self._agent.standing is not Standing.REGISTERED or is_active == self._was_active:
            return
        self._was_active = is_active
        if is_active:
            self._say("resumed", "this is the current agent")
        else:
            self._say("suspended", "another agent is the current one")

    def _say(self, event: str, text: str, **facts: object) -> None:
        if self._asking.is_json:
            click.echo(json.dumps({"event": event, "text": text, **facts}))
        else:
            click.echo(f"{event}: {text}" if text else event)
