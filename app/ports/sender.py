"""Who sends a request: what goes out beside the fencing token, so that receivers know whose effect it is."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from app.ports.store import Holder
from app.ports.vm import VmKey

HOLDER_HEADER = "X-Vmscaler-Holder"
"""Identity and agent id of the worker: a restarted one with the same name is another holder."""

BUCKET_HEADER = "X-Vmscaler-Bucket"
"""The VM's bucket: a token fences out older ones for all of it, not for the one VM alone."""

TOKEN_HEADER = "X-Vmscaler-Token"  # noqa: S105 - a header's name
"""The fencing token of the bucket's lease, a decimal number."""

MAX_HEADER_LENGTH = 400
"""Of a holder or bucket; a receiver ignores a longer one."""

_PLAIN = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True, slots=True)
class Sender:
    """A worker, as the receivers of its requests know it.

    Attributes:
        holder: see `holder_text`.
        bucket_of: the bucket of a VM, by the ring that this worker goes by.
        token_of: the token of a bucket that it holds now; None for one that it doesn't.
    """

    holder: str
    bucket_of: Callable[[VmKey], str]
    token_of: Callable[[str], int | None] = lambda bucket: None

    def headers(self, key: VmKey | None = None) -> dict[str, str]:
        """What to add to a request; the bucket where it concerns one VM."""
        headers = {HOLDER_HEADER: self.holder}
        if key is not None:
            headers[BUCKET_HEADER] = self.bucket_of(key)
        return headers

    def reading_headers(self, key: VmKey) -> dict[str, str]:
        """What to add where a VM is read at take-over: receivers then refuse earlier owners from there on."""
        token = self.token_of(self.bucket_of(key))
        return self.headers(key) | ({} if token is None else {TOKEN_HEADER: str(token)})


def holder_text(holder: Holder) -> str:
    """`<name>_<ip>/<agent id>`; what can't stand in a header is left out."""
    return "".join(_PLAIN.findall(f"{holder.identity}/{holder.agent_id}"))[:MAX_HEADER_LENGTH]


def readable(text: str | None) -> str:
    """A header's value as a receiver may keep it: "" for none, or for one that no sender of ours makes."""
    if text is None or len(text) > MAX_HEADER_LENGTH or _PLAIN.fullmatch(text) is None:
        return ""
    return text
