"""The built-in scheduler over HTTP (`spec/scheduler-protocol.md`).

POST /         a request for a permit; 400, 404 and 409 (an older token) with a text
GET /          its whole state as JSON
GET /healthz   200 as long as the platform is followed, 503 once that has come to a stop
GET /metrics   the page for Prometheus
GET /readyz    200 once the platform's VMs are known and while it answers, 503 else
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING

from app.core.permits import Amount, Grant, Refusal, RefusalKind, Wish
from app.core.resources import Resources, resources
from app.errors import InvalidInput
from app.ports.sender import readable
from app.protocols.printable import printable
from app.protocols.scheduler import (
    MAX_BODY_BYTES,
    PermitRequest,
    ProtocolVersion,
    decode_request,
    encode_response,
)
from app.protocols.scheduler import Amount as WireAmount
from app.services.metrics_page import MetricsPage
from app.services.node_scheduler import NodeScheduler
from app.web.metrics import metrics_reply
from app.web.ready import pulse_reply, ready_reply
from app.web.replies import Reply, json_reply, read_body, respond, text_reply, wrong_method

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

TOKEN_HEADER = "HTTP_X_VMSCALER_TOKEN"  # noqa: S105 - a header's name
"""`X-Vmscaler-Token`, the fencing token of the agent, a decimal number; foreign agents send none."""

HOLDER = "HTTP_X_VMSCALER_HOLDER"
"""Who asks, for the journal."""

BUCKET = "HTTP_X_VMSCALER_BUCKET"
"""The VM's bucket; its newest token fences out older ones."""

MAX_TOKEN_DIGITS = 19

STATUSES = {
    RefusalKind.UNKNOWN_POD: HTTPStatus.NOT_FOUND,
    RefusalKind.UNKNOWN_NODE: HTTPStatus.NOT_FOUND,
    RefusalKind.OLD_TOKEN: HTTPStatus.CONFLICT,
    RefusalKind.BAD_REQUEST: HTTPStatus.BAD_REQUEST,
    RefusalKind.MIGRATING: HTTPStatus.BAD_REQUEST,
    RefusalKind.NO_ROOM: HTTPStatus.SERVICE_UNAVAILABLE,
}
"""How a refusal is told."""


class SchedulerApplication:
    """The WSGI application.

    Args:
        compute_unit: what agents are told below v3.0; memory in slots.
        journal: takes the facts of each answered question, before anyone else is answered; must not wait.
        metrics: the page for Prometheus; None: there is none.
    """

    def __init__(
        self,
        scheduler: NodeScheduler,
        compute_unit: Resources,
        journal: Callable[..., None] | None = None,
        metrics: MetricsPage | None = None,
    ) -> None:
        self._scheduler = scheduler
        self._metrics = metrics
        self._journal = journal
        self._compute_unit = compute_unit

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        return respond(self._route, environ, start_response)

    def _route(self, environ: WSGIEnvironment) -> Reply:
        method, path = environ["REQUEST_METHOD"], environ.get("PATH_INFO") or "/"
        match method, path:
            case "POST", "/":
                return self._permit(environ)
            case "GET" | "HEAD", "/":
                return json_reply(self._scheduler.dump())
            case "GET" | "HEAD", "/healthz":
                return pulse_reply(self._scheduler.pulse, {"vms": self._scheduler.vm_count})
            case "GET" | "HEAD", "/readyz":
                return ready_reply(self._reasons())
            case "GET" | "HEAD", "/metrics" if self._metrics is not None:
                return metrics_reply(self._metrics)
            case _, "/":
                return wrong_method("GET, HEAD, POST")
            case _, "/healthz" | "/readyz":
                return wrong_method("GET, HEAD")
            case _, "/metrics" if self._metrics is not None:
                return wrong_method("GET, HEAD")
            case _:
                return text_reply(HTTPStatus.NOT_FOUND, "no such page; permits are asked for with POST /")

    def _permit(self, environ: WSGIEnvironment) -> Reply:
        body = read_body(environ, MAX_BODY_BYTES)
        if body is None:
            text = f"the body is longer than {MAX_BODY_BYTES} bytes".encode()
            return Reply(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text, is_last=True)
        try:
            token = _read_token(environ.get(TOKEN_HEADER))
            request = decode_request(body)
        except InvalidInput as err:
            return text_reply(HTTPStatus.BAD_REQUEST, str(err))
        if not self._scheduler.is_ready:
            return self._not_ready()
        key = f"{request.namespace}/{request.name}"
        # A VM that is not known has no slots; the answer is the same whatever it asks for.
        slot_bytes = self._scheduler.slot_bytes(key) or 1
        wish, bucket = _wish(request, slot_bytes, token), readable(environ.get(BUCKET))
        answer = self._scheduler.request(key, wish, bucket)
        if self._journal is not None:
            holder = readable(environ.get(HOLDER))
            self._journal(vm=key, holder=holder, bucket=bucket, token=token, **_facts_of(wish, answer))
        if isinstance(answer, Grant):
            return self._granted(request.version, answer)
        return text_reply(STATUSES[answer.kind], answer.text)

    def _granted(self, version: ProtocolVersion, grant: Grant) -> Reply:
        permit = resources(grant.permit.cpu, grant.permit.mem // grant.slot_bytes)
        body = encode_response(
            version,
            permit,
            compute_unit=self._compute_unit,
            is_migrating=grant.is_migrating,
            slot_bytes=grant.slot_bytes,
        )
        return Reply(HTTPStatus.OK, body, "application/json")

    def _not_ready(self) -> Reply:
        return text_reply(HTTPStatus.SERVICE_UNAVAILABLE, self._reasons()[0])

    def _reasons(self) -> list[str]:
        problem = printable(self._scheduler.problem)
        if not self._scheduler.is_ready:
            return ["the platform's VMs are not known yet" + (f": {problem}" if problem else "")]
        return [f"the platform gives no answer: {problem}"] if problem else []


def _wish(request: PermitRequest, slot_bytes: int, token: int | None) -> Wish:
    last = request.last_permit
    return Wish(
        requested=_in_bytes(request.target, request.version, slot_bytes),
        last_permit=None if last is None else _in_bytes(last, request.version, slot_bytes),
        is_whole_cpus=request.version < ProtocolVersion.V2_0,
        token=token,
    )


def _facts_of(wish: Wish, answer: Grant | Refusal) -> dict[str, object]:
    """What the journal keeps of a question and its answer: CPU in milli-vCPU, memory in bytes."""
    facts: dict[str, object] = {"asked": _size(wish.requested)}
    if isinstance(answer, Grant):
        return facts | {"effect": "granted", "to": _size(answer.permit)}
    return facts | {"effect": "refused", "reason": str(answer.kind)}


def _size(amount: Amount) -> dict[str, int]:
    return {"cpu_m": amount.cpu, "mem_bytes": amount.mem}


def _in_bytes(amount: WireAmount, version: ProtocolVersion, slot_bytes: int) -> Amount:
    """Nothing is rounded: what is reserved must be an upper bound."""
    in_slots = version < ProtocolVersion.V4_0
    return Amount(amount.milli_cpu, amount.mem * slot_bytes if in_slots else amount.mem)


def _read_token(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_TOKEN_DIGITS):
        raise InvalidInput("X-Vmscaler-Token", "expected a decimal number")
    return int(text)
