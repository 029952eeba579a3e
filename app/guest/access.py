"""Who may talk to the daemon: callers limited to networks, and a bearer token."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from app.guest.http_messages import Request, Response, text_response
from app.protocols.access import AllowedAddresses, is_bearer
from app.protocols.guest_metrics import REFUSED

MAX_TOKEN_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Access:
    """The rule for one server.

    Attributes:
        callers: None lets everyone in.
        token: what protected paths ask for; None: no path is protected.
    """

    callers: AllowedAddresses | None = None
    token: str | None = None

    def refusal(self, request: Request, *, is_protected: bool) -> Response | None:
        """The 403 or 401 for a request, or None where it may go on."""
        if self.callers is not None and not self.callers.has(request.peer):
            REFUSED.add("address")
            return text_response("this address may not call", 403)
        if not is_protected or self.token is None:
            return None
        if is_bearer(request.headers.get("authorization", ""), self.token):
            return None
        REFUSED.add("token")
        return Response(401, b"a bearer token is needed\n", headers=(("WWW-Authenticate", "Bearer"),))


def read_token(path: str) -> str:
    """The token in a file, blanks around it left out.

    Raises:
        OSError: the file can't be read.
        ValueError: it is empty, too long, or holds more than one line.
    """
    with Path(path).open("rb") as file:
        data = file.read(MAX_TOKEN_BYTES + 1)
    token = data.decode("utf-8").strip()
    if not token or len(data) > MAX_TOKEN_BYTES or any(not character.isprintable() for character in token):
        raise ValueError(f"{path}: one line with a token was expected")
    return token
