"""Asks schedulers for permits over HTTP (`spec/scheduler-protocol.md`)."""

from __future__ import annotations

from collections.abc import Mapping

from app.adapters.client_tls import ClientTls
from app.adapters.deadline_http import deadline_session, exchange
from app.core.resources import Resources, resources
from app.errors import InvalidInput, PeerRefused
from app.ports.peers import PermitAnswer, PermitQuestion, SchedulerInfo
from app.ports.sender import Sender
from app.protocols.printable import printable
from app.protocols.scheduler import (
    PLUGIN_PROTOCOL_VERSION,
    ProtocolVersion,
    decode_response,
    encode_request,
)

TOKEN_HEADER = "X-Vmscaler-Token"  # noqa: S105
"""Carries the fencing token; our own scheduler refuses an older one than it has seen for the VM."""

DEFAULT_COMPUTE_UNIT = resources(250, 1)
"""As `scaling.computeUnit` in the configuration; only used from v3.0 on."""


class SchedulerHttp:
    """The `SchedulerClient` port, over connections that are kept alive.

    Args:
        version: what to speak.
        compute_unit: the agent's own; from v3.0 on the scheduler does not tell one.
        bearer: a token that lets us in, for schedulers that ask for one.
        sender: who asks; None outside a worker.
        tls: whom we believe at https:// addresses; None: those can't be asked.
    """

    def __init__(
        self,
        version: ProtocolVersion = PLUGIN_PROTOCOL_VERSION,
        compute_unit: Resources = DEFAULT_COMPUTE_UNIT,
        bearer: str | None = None,
        sender: Sender | None = None,
        tls: ClientTls | None = None,
    ) -> None:
        self._version = version
        self._compute_unit = compute_unit
        self._bearer = bearer
        self._sender = sender
        self._session = deadline_session(tls)

    def ask(
        self, scheduler: SchedulerInfo, question: PermitQuestion, *, timeout_s: float | None
    ) -> PermitAnswer:
        """See `SchedulerClient.ask`.

        An answer that can't be used is a `PeerRefused` without a code. A connection that was lost after the
        question was sent is a `PeerTimedOut`: the scheduler may have granted it.
        """
        vm = question.vm
        body = encode_request(
            self._version,
            (vm.namespace, vm.pod_name or vm.name),
            question.target,
            last_permit=question.last_permit,
            compute_unit=self._compute_unit,
            metrics=question.metrics,
            slot_bytes=vm.slot_bytes,
        )
        answer = self.request(
            scheduler.url,
            body,
            timeout_s=timeout_s,
            token=question.token,
            more=None if self._sender is None else self._sender.headers(vm.key),
        )
        try:
            read = decode_response(answer, self._version, target=question.target, slot_bytes=vm.slot_bytes)
        except InvalidInput as err:
            raise PeerRefused(_peer(scheduler.url), f"an unusable answer: {err}") from err
        return PermitAnswer(read.permit, read.compute_unit or self._compute_unit, read.is_migrating)

    def request(
        self,
        url: str,
        body: bytes,
        *,
        timeout_s: float | None,
        token: int | None,
        more: Mapping[str, str] | None = None,
    ) -> bytes:
        """POST a body; the answer's body if it is a 200.

        Args:
            timeout_s: for connecting, sending and the whole answer together; None: no limit.
            token: the fencing token; None for an agent that has none.
            more: headers beside.

        Raises:
            PeerUnreachable: no connection; nothing was sent.
            PeerTimedOut: no whole answer in time, or the connection was lost meanwhile.
            PeerRefused: another status, or an answer above 64 KB.
        """
        headers = {"Content-Type": "application/json", **(more or {})}
        if token is not None:
            headers[TOKEN_HEADER] = str(token)
        if self._bearer is not None:
            headers["Authorization"] = f"Bearer {self._bearer}"
        peer = _peer(url)
        code, answer = exchange(
            self._session, "POST", url, body, headers=headers, timeout_s=timeout_s, peer=peer
        )
        if code != 200:
            text = printable(answer.decode("utf-8", "replace"))
            raise PeerRefused(peer, f"HTTP status {code}: {text}", code=code)
        return answer

    def close(self) -> None:
        """Close all connections."""
        self._session.close()


def _peer(url: str) -> str:
    """How errors call the scheduler: by its address."""
    return "scheduler " + url.removeprefix("http://").removeprefix("https://").rstrip("/")
