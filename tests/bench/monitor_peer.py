"""A process of vm-monitors for the benchmarks: answers health checks, on one port, as many as connect.

Prints its port; ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys

from app.guest.http_messages import Conversation, Request, Response, Upgrade
from app.guest.server import Limits, Server
from app.protocols.monitor_guest import CloseAgent, GuestConnection, SendToAgent


async def converse(conversation: Conversation) -> None:
    """Serve one agent."""
    connection = GuestConnection()
    while True:
        message = await conversation.receive()
        data = message if isinstance(message, bytes) else message.encode()
        for effect in connection.receive(data):
            if isinstance(effect, SendToAgent):
                await conversation.send(effect.data.decode())
            elif isinstance(effect, CloseAgent):
                await conversation.close(effect.code, effect.problem)
                return


async def _handle(request: Request) -> Response | Upgrade:
    return Upgrade(converse)


async def _serve() -> None:
    server = Server(_handle, limits=Limits(connections=10_000))
    _, port = await server.start("127.0.0.1", 0)
    print(port, flush=True)
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.to_thread(sys.stdin.read)
    await server.close(0.1)


if __name__ == "__main__":
    asyncio.run(_serve())
