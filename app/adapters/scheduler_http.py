"""Asks schedulers for permits over HTTP (`spec/scheduler-protocol.md`)."""

from __future__ import annotations

from typing import Any

import requests
import urllib3
from requests.exceptions import InvalidSchema, InvalidURL, MissingSchema

from app.adapters.deadline_http import deadline_session
from app.core.resources import Resources, resources
from app.errors import InvalidInput, PeerRefused, PeerTimedOut, PeerUnreachable
from app.ports.peers import PermitAnswer, PermitQuestion, SchedulerInfo
from app.protocols.printable import printable
from app.protocols.scheduler import (
    MAX_BODY_BYTES,
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
    """

    def __init__(
        self,
        version: ProtocolVersion = PLUGIN_PROTOCOL_VERSION,
        compute_unit: Resources = DEFAULT_COMPUTE_UNIT,
    ) -> None:
        self._version = version
        self._compute_unit = compute_unit
        self._session = deadline_session()

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
            (vm.namespace, vm.name),
            question.target,
            last_permit=question.last_permit,
            compute_unit=self._compute_unit,
            metrics=question.metrics,
            slot_bytes=vm.slot_bytes,
        )
        answer = self.request(scheduler.url, body, timeout_s=timeout_s, token=question.token)
        try:
            read = decode_response(answer, self._version, target=question.target, slot_bytes=vm.slot_bytes)
        except InvalidInput as err:
            raise PeerRefused(_peer(scheduler.url), f"an unusable answer: {err}") from err
        return PermitAnswer(read.permit, read.compute_unit or self._compute_unit, read.is_migrating)

    def request(self, url: str, body: bytes, *, timeout_s: float | None, token: int) -> bytes:
        """POST a body; the answer's body if it is a 200.

        Args:
            timeout_s: for connecting, sending and the whole answer together; None: no limit.

        Raises:
            PeerUnreachable: no connection; nothing was sent.
            PeerTimedOut: no whole answer in time, or the connection was lost meanwhile.
            PeerRefused: another status, or an answer above 64 KB.
        """
        peer = _peer(url)
        if timeout_s is not None and timeout_s <= 0:
            raise PeerUnreachable(peer, "no time left to ask")
        headers = {"Content-Type": "application/json", TOKEN_HEADER: str(token)}
        limit: Any = urllib3.Timeout(total=timeout_s)
        try:
            with self._session.post(
                url, data=body, headers=headers, timeout=limit, stream=True, allow_redirects=False
            ) as response:
                answer = _read_body(response)
                code = response.status_code
        except (InvalidURL, InvalidSchema, MissingSchema) as err:
            raise PeerUnreachable(peer, "no http:// address") from err
        except requests.ConnectTimeout as err:
            raise PeerUnreachable(peer, "no connection in time") from err
        except requests.ConnectionError as err:
            if isinstance(_cause(err), urllib3.exceptions.NewConnectionError):
                raise PeerUnreachable(peer, "no connection") from err
            raise PeerTimedOut(peer, "the connection was lost before the answer came") from err
        except (requests.Timeout, urllib3.exceptions.TimeoutError) as err:
            raise PeerTimedOut(peer, "no answer in time") from err
        except (requests.RequestException, urllib3.exceptions.HTTPError, ValueError) as err:
            raise PeerTimedOut(peer, f"the answer broke off: {printable(str(err))}") from err
        if code != 200:
            text = printable(answer.decode("utf-8", "replace"))
            raise PeerRefused(peer, f"HTTP status {code}: {text}", code=code)
        if len(answer) > MAX_BODY_BYTES:
            raise PeerRefused(peer, f"an answer above {MAX_BODY_BYTES} bytes")
        return answer

    def close(self) -> None:
        """Close all connections."""
        self._session.close()


def _read_body(response: requests.Response) -> bytes:
    """The body, cut above the limit; reads on to the end of the stream, which shows what broke off."""
    body = b""
    while len(body) <= MAX_BODY_BYTES:
        piece: bytes = response.raw.read(MAX_BODY_BYTES + 1 - len(body), decode_content=False)
        if not piece:
            break
        body += piece
    return body


def _peer(url: str) -> str:
    """How errors call the scheduler: by its address."""
    return "scheduler " + url.removeprefix("http://").rstrip("/")


def _cause(err: requests.ConnectionError) -> object:
    """What is behind requests' error: urllib3's reason, without its wrappers."""
    inner = err.args[0] if err.args else None
    return inner.reason if isinstance(inner, urllib3.exceptions.MaxRetryError) else inner
