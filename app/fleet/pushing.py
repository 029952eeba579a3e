"""Simulated VMs that can't be polled: each pushes its stats to a worker's intake, as docs/stats.md says.

A list that was not taken, for whatever reason, is sent again with the next stat, up to a bound.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from app.errors import UsageError
from app.fleet.fleet import Fleet
from app.fleet.simulated_vm import SimulatedVm
from app.protocols.bounded_json import write_json
from app.protocols.stat_tokens import vm_token

logger = logging.getLogger(__name__)

REQUEST_S = 5.0
"""For a whole request."""

KEPT = 50
"""Stats that a VM keeps while nobody takes them; the oldest goes first."""

MAX_ANSWER_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class PushOptions:
    """Which VMs push, and where to.

    Attributes:
        count: the last so many VMs of the fleet.
        urls: intakes, asked in turn, such as `http://127.0.0.1:9101`.
        secret: the fleet's secret, of which each VM's token is made.
        every_s: between two stats of a VM.
    """

    count: int
    urls: tuple[str, ...]
    secret: str
    every_s: float = 5.0


class Pusher:
    """Pushes for all VMs that do; runs as one task each.

    Raises:
        UsageError: an address is none that can be pushed to.
    """

    def __init__(self, fleet: Fleet, options: PushOptions) -> None:
        self._fleet = fleet
        self._options = options
        self._places = [_place(url) for url in options.urls]
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, vms: Sequence[SimulatedVm]) -> None:
        """Begin; the VMs' turns are spread over the time between two stats."""
        for number, vm in enumerate(vms):
            delay_s = self._options.every_s * number / len(vms)
            self._tasks.append(asyncio.create_task(self._push_always(vm, delay_s), name=f"push-{vm.key}"))

    async def stop(self) -> None:
        """End at once."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _push_always(self, vm: SimulatedVm, delay_s: float) -> None:
        waiting: deque[dict[str, object]] = deque(maxlen=KEPT)
        token = vm_token(self._options.secret, vm.key)
        turn = 0
        is_taken = True
        await asyncio.sleep(delay_s)
        while vm.key in self._fleet.vms:
            waiting.append(_entry(self._fleet.present(vm)))
            status = await self._post(self._places[turn % len(self._places)], list(waiting), token)
            if status == 202:
                waiting.clear()
            elif is_taken:
                logger.warning("stats not taken", extra={"vm": vm.key, "status": status})
            is_taken = status == 202
            turn += 1
            await asyncio.sleep(self._options.every_s)

    async def _post(self, place: tuple[str, int], entries: list[dict[str, object]], token: str) -> int:
        """The status; 0 without an answer."""
        try:
            async with asyncio.timeout(REQUEST_S):
                return await _exchange(place, write_json(entries), token)
        except (OSError, ValueError, asyncio.IncompleteReadError):
            return 0


async def _exchange(place: tuple[str, int], body: bytes, token: str) -> int:
    host, port = place
    reader, writer = await asyncio.open_connection(host, port, limit=MAX_ANSWER_BYTES)
    try:
        head = (
            f"POST /v1/stats HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        writer.write(head.encode() + body)
        await writer.drain()
        line = await reader.readuntil(b"\r\n")
        return int(line.split()[1]) if line.startswith(b"HTTP/1.") and len(line.split()) > 1 else 0
    finally:
        writer.close()


def _entry(vm: SimulatedVm) -> dict[str, object]:
    model = vm.model
    return {
        "key": vm.key,
        "load1": round(model.load.load1, 2),
        "load5": round(model.load.load5, 2),
        "memTotalBytes": model.total_bytes,
        "memAvailableBytes": model.available_bytes,
        "timestamp": time.time_ns() // 1_000_000,
    }


def _place(url: str) -> tuple[str, int]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or 80
    except ValueError:
        host, port, parts = None, 0, urlsplit("")
    if parts.scheme != "http" or not host or parts.path not in ("", "/"):
        raise UsageError(f"--push-url: {url!r} is not http://HOST:PORT")
    return host, port
