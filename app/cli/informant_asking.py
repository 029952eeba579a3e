"""One question to an informant, shown as it goes by; and what its answers say."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from app.cli.amounts import PeerUrl
from app.cli.by_hand import Asking
from app.errors import InvalidInput, PeerRefused
from app.protocols.printable import printable

T = TypeVar("T")


def exchange_with_informant(
    url: PeerUrl, method: str, path: str, body: bytes, asking: Asking
) -> tuple[int, bytes]:
    """The status and body of its answer. Raises PeerError where there is none that can be used."""
    # `register` imports this module before it makes the standard library cooperative.
    from app.adapters.informant_http import InformantHttp

    asking.trace.sent(body, f"{method} {path}")
    client = InformantHttp(str(url), bearer=asking.token, tls=asking.tls(url))
    try:
        status, answer = client.request(method, path, body, timeout_s=asking.timeout_s)
    finally:
        client.close()
    asking.trace.received(answer, str(status))
    return status, answer


def ask_informant(url: PeerUrl, method: str, path: str, body: bytes, asking: Asking) -> bytes:
    """The body of its 200.

    Raises:
        PeerRefused: another status; its text is in the error.
        PeerError: no answer.
    """
    status, answer = exchange_with_informant(url, method, path, body, asking)
    if status != 200:
        raise refusal(url, status, answer)
    return answer


def refusal(url: PeerUrl, status: int, answer: bytes) -> PeerRefused:
    """The error for another status than 200."""
    text = printable(answer.decode("utf-8", "replace").strip())
    return PeerRefused(f"informant {url}", f"HTTP status {status}: {text}", code=status)


def read_answer(url: PeerUrl, read: Callable[[bytes], T], body: bytes) -> T:
    """What a 200 says. Raises PeerRefused: not what an informant answers."""
    try:
        return read(body)
    except InvalidInput as err:
        raise PeerRefused(f"informant {url}", f"an unusable answer: {err}") from err
