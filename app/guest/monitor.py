"""The guest's vm-monitor: the websocket protocol over the real memory policy (`spec/monitor-protocol.md`)."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import assert_never

from app.guest.hooks import HookFailed
from app.guest.http_messages import Conversation
from app.guest.websocket import WebSocketClosed
from app.guest.workload import Workload
from app.protocols.guest_metrics import CONNECTIONS, MEMORY_REQUESTS
from app.protocols.monitor_guest import (
    AgentReady,
    CloseAgent,
    DownscaleAsked,
    GuestConnection,
    SendToAgent,
    UpscaleGranted,
)

logger = logging.getLogger(__name__)

HANDSHAKE_S = 10.0
"""For an agent to say which versions it speaks."""
MAX_REQUESTS = 8
"""Of one agent, being carried out at once; reading waits beyond."""


@dataclass(slots=True)
class _Session:
    """One agent's connection."""

    conversation: Conversation
    protocol: GuestConnection = field(default_factory=GuestConnection)
    replaced: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def begin(self, work: asyncio.Task[None]) -> None:
        """Keep a task until it ends."""
        self.tasks.add(work)
        work.add_done_callback(self.tasks.discard)


class Monitor:
    """Serves one agent at a time; a new connection ends the one before."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._current: _Session | None = None

    @property
    def has_agent(self) -> bool:
        """Whether an agent is connected and has shaken hands."""
        return self._current is not None and self._current.protocol.is_open

    async def converse(self, conversation: Conversation) -> None:
        """Serve one agent until either side ends it, or the next one comes.

        Raises:
            app.guest.websocket.WebSocketClosed: the ordinary end.
        """
        session = _Session(conversation)
        if self._current is not None:
            self._current.replaced.set()
        self._current = session
        talking = asyncio.create_task(self._talk(session), name="monitor-talk")
        replaced = asyncio.create_task(session.replaced.wait(), name="monitor-replaced")
        try:
            await asyncio.wait({talking, replaced}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if self._current is session:
                self._current = None
            leftover = {talking, replaced, *session.tasks}
            for task in leftover:
                task.cancel()
            await asyncio.gather(*leftover, return_exceptions=True)
        if session.replaced.is_set():
            logger.info("another agent has connected")
            await conversation.close(1000, "another agent has connected")
        else:
            talking.result()

    def ask_for_memory(self) -> None:
        """Send an `UpscaleRequest` to the agent, if there is one; called once a second at most."""
        session = self._current
        if session is None or not session.protocol.is_open or len(session.tasks) >= MAX_REQUESTS:
            return
        sending = _send_quietly(session.conversation, session.protocol.request_upscale())
        session.begin(asyncio.get_running_loop().create_task(sending, name="monitor-request"))
        MEMORY_REQUESTS.add()

    async def _talk(self, session: _Session) -> None:
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                is_on = await self._take_message(session)
        except TimeoutError:
            await session.conversation.close(1002, "no handshake in time")
            return
        while is_on:
            is_on = await self._take_message(session)

    async def _take_message(self, session: _Session) -> bool:
        """Handle the next message; False when the connection is to end."""
        message = await session.conversation.receive()
        data = message if isinstance(message, bytes) else message.encode("utf-8", "replace")
        for effect in session.protocol.receive(data):
            match effect:
                case SendToAgent(answer):
                    await session.conversation.send(answer.decode())
                case CloseAgent(code, problem):
                    await session.conversation.close(code, problem)
                    return False
                case UpscaleGranted() | DownscaleAsked():
                    await self._begin(session, effect)
                case AgentReady():
                    CONNECTIONS.add()
                    logger.info("an agent has connected")
                case _:
                    assert_never(effect)
        return True

    async def _begin(self, session: _Session, asked: UpscaleGranted | DownscaleAsked) -> None:
        """Carry a request out beside the reading, so that a slow hook holds up no health check."""
        while len(session.tasks) >= MAX_REQUESTS:
            await asyncio.wait(session.tasks, return_when=asyncio.FIRST_COMPLETED)
        work = self._answer(session, asked)
        session.begin(asyncio.create_task(work, name=f"monitor-{asked.message_id}"))

    async def _answer(self, session: _Session, asked: UpscaleGranted | DownscaleAsked) -> None:
        protocol = session.protocol
        try:
            if isinstance(asked, UpscaleGranted):
                await self._workload.notify_upscale(asked.cpu, asked.mem)
                answer = protocol.confirm_upscale(asked.message_id)
            else:
                answer = await self._downscale(protocol, asked)
        except HookFailed as err:
            logger.warning("a hook failed", extra={"problem": str(err)})
            answer = protocol.report_failure(asked.message_id, str(err))
        except Exception:
            logger.exception("a request failed")
            answer = protocol.report_failure(asked.message_id, "internal error")
        await _send_quietly(session.conversation, answer)

    async def _downscale(self, protocol: GuestConnection, asked: DownscaleAsked) -> bytes:
        verdict = await self._workload.try_downscale(asked.cpu, asked.mem)
        if verdict.is_failure:
            return protocol.report_failure(asked.message_id, verdict.status)
        return protocol.answer_downscale(
            asked.message_id, is_allowed=verdict.is_allowed, status=verdict.status
        )


async def _send_quietly(conversation: Conversation, data: bytes) -> None:
    """Send; the end of the connection is the reader's to notice."""
    try:
        await conversation.send(data.decode())
    except WebSocketClosed:
        return
