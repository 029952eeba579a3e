"""Which request goes where on one listening address of the daemon; an address may serve several roles."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from app.guest.access import Access
from app.guest.cpus import CpuCount, CpuSwitch
from app.guest.http_messages import Request, Response, Upgrade, json_response, text_response
from app.guest.informant import Informant
from app.guest.load import LoadRunner, read_load
from app.guest.metrics_page import CONTENT_TYPE, metrics_page
from app.guest.monitor import Monitor
from app.guest.own_metrics import OwnMetrics
from app.guest.procfs import PROC

logger = logging.getLogger(__name__)

ROLES = ("monitor", "informant", "metrics")
"""What can be given an address; `cpus` and `load` are served on all of them."""
MAX_BODY_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Routes:
    """One address' roles; what is None is not served there.

    Attributes:
        protected: roles, and `cpus` and `load`, that need the token.
        proc: where the kernel tells of the guest.
    """

    access: Access
    protected: frozenset[str] = frozenset()
    monitor: Monitor | None = None
    informant: Informant | None = None
    cpus: CpuSwitch | None = None
    load: LoadRunner | None = None
    has_metrics: bool = False
    own_metrics: OwnMetrics | None = None
    proc: Path = PROC

    async def handle(self, request: Request) -> Response | Upgrade:
        """Answer one request: caller, token, path and method are looked at in this order."""
        role, answer = self._find(request.path)
        refusal = self.access.refusal(request, is_protected=role in self.protected)
        return await answer(request) if refusal is None else refusal

    def _find(self, path: str) -> tuple[str, Callable[[Request], Awaitable[Response | Upgrade]]]:
        if path == "/monitor" and self.monitor is not None:
            return "monitor", self._monitor
        if self.informant is not None and self.informant.serves(path):
            return "informant", self.informant.handle
        if path == "/cpus" and self.cpus is not None:
            return "cpus", self._cpus
        if path == "/load" and self.load is not None:
            return "load", self._load
        if path == "/metrics" and self.has_metrics:
            return "metrics", self._metrics
        own = {"/healthz": _answer_health, "/readyz": self._ready}
        return (path[1:], own[path]) if path in own else ("nothing", _answer_nothing)

    async def _monitor(self, request: Request) -> Response | Upgrade:
        if self.monitor is None or request.method != "GET":
            return _wrong_method("GET")
        return Upgrade(self.monitor.converse)

    async def _cpus(self, request: Request) -> Response | Upgrade:
        if self.cpus is None or request.method not in ("GET", "PUT"):
            return _wrong_method("GET, PUT")
        try:
            if request.method == "GET":
                return _cpus_response(await self.cpus.count())
            wanted = _wanted_cpus(request.body)
        except (OSError, ValueError) as err:
            return text_response(str(err), 500 if request.method == "GET" else 400)
        try:
            count = await self.cpus.set_online(wanted)
        except ValueError as err:
            return text_response(str(err), 400)
        except OSError as err:
            return text_response(f"the kernel refused: {err.strerror}", 500)
        logger.info("CPUs set", extra={"wanted": wanted, "online": count.online, "present": count.present})
        return _cpus_response(count)

    async def _load(self, request: Request) -> Response | Upgrade:
        if self.load is None or request.method not in ("GET", "PUT", "DELETE"):
            return _wrong_method("GET, PUT, DELETE")
        try:
            if request.method == "PUT":
                await self.load.begin(read_load(_document(request.body)))
            elif request.method == "DELETE":
                await self.load.end()
        except ValueError as err:
            return text_response(str(err), 400)
        except (OSError, TimeoutError) as err:
            return text_response(f"the load can't be changed: {err}", 500)
        return json_response(self.load.status())

    async def _metrics(self, request: Request) -> Response | Upgrade:
        if request.method not in ("GET", "HEAD"):
            return _wrong_method("GET, HEAD")
        try:
            page = metrics_page(self.proc) + (b"" if self.own_metrics is None else self.own_metrics.text())
            return Response(200, page, CONTENT_TYPE)
        except (OSError, ValueError) as err:
            return text_response(f"/proc can't be read: {err}", 500)

    async def _ready(self, request: Request) -> Response | Upgrade:
        """Whether an agent can be told of this guest."""
        if request.method not in ("GET", "HEAD"):
            return _wrong_method("GET, HEAD")
        try:
            metrics_page(self.proc)
        except (OSError, ValueError) as err:
            return text_response(f"/proc can't be read: {err}", 503)
        return text_response("ready")


async def _answer_health(request: Request) -> Response | Upgrade:
    return text_response("ok") if request.method in ("GET", "HEAD") else _wrong_method("GET, HEAD")


async def _answer_nothing(_: Request) -> Response | Upgrade:
    return text_response("not found", 404)


def _wrong_method(allowed: str) -> Response:
    return Response(405, f"{allowed} only\n".encode(), headers=(("Allow", allowed),))


def _cpus_response(count: CpuCount) -> Response:
    return json_response({"online": count.online, "present": count.present})


def _wanted_cpus(body: bytes) -> int:
    """The number in `{"online": n}`. Raises ValueError with a text for the caller."""
    document = _document(body)
    wanted = document.get("online") if isinstance(document, dict) else None
    if isinstance(wanted, bool) or not isinstance(wanted, int):
        raise ValueError('bad JSON: {"online": n} was expected')
    return wanted


def _document(body: bytes) -> object:
    """A small JSON body. Raises ValueError with a text for the caller."""
    if len(body) > MAX_BODY_BYTES:
        raise ValueError("bad JSON")
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as err:
        raise ValueError("bad JSON") from err
