"""What is kept about a VM inside its QEMU: the size last asked for, and the fencing token seen with it.

QEMU has no place for notes; an `authz-simple` object (QEMU 4.0 and newer) holds a text that can be read and
changed, and does nothing while nothing refers to it. It is there for every worker on whatever host, it is
changed within the session that changes the VM, and it ends with the VM: a QEMU that is started anew has no
note, so that its size counts as nobody's wish.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.adapters.qmp import QmpRefused, QmpSession
from app.core.resources import Resources, resources
from app.errors import InvalidInput
from app.protocols.bounded_json import read_json_object, write_json

_ID = "vmscaler"
_PATH = f"/objects/{_ID}"
_MAX_BYTES = 1024
_LARGEST = 1 << 53


@dataclass(frozen=True, slots=True)
class Note:
    """What was asked of a VM last.

    Attributes:
        token: the newest fencing token seen; older ones are refused.
        use: the size last asked for; None while only a token was seen.
        slot_bytes: of the slots in `use`.
    """

    token: int
    use: Resources | None
    slot_bytes: int


def read_note(session: QmpSession) -> Note | None:
    """The VM's note; None where there is none, or it is none of ours.

    Raises:
        PeerError: QEMU gave no answer.
    """
    try:
        text = session.execute("qom-get", path=_PATH, property="identity")
    except QmpRefused:
        return None
    return _parse(text)


def write_note(session: QmpSession, note: Note) -> None:
    """Put the note in the place of the one before.

    Raises:
        PeerRefused: this QEMU can't keep it.
        PeerTimedOut: it may be there or not.
    """
    use = None if note.use is None else [note.use.cpu, note.use.mem]
    text = write_json({"v": 1, "token": note.token, "use": use, "slot": note.slot_bytes}).decode()
    try:
        session.execute("qom-set", path=_PATH, property="identity", value=text)
    except QmpRefused:
        session.execute("object-add", qom_type="authz-simple", id=_ID, identity=text)


def _parse(text: object) -> Note | None:
    """A note that can't be read is as good as none: the next resize writes it anew."""
    if not isinstance(text, str):
        return None
    try:
        found = read_json_object(text.encode("utf-8", "replace"), max_bytes=_MAX_BYTES, where="note")
    except InvalidInput:
        return None
    token, use, slot = found.get("token"), found.get("use"), found.get("slot")
    if not (_is_count(token) and _is_count(slot)):
        return None
    if use is None:
        return Note(_count(token), None, _count(slot))
    if not isinstance(use, list) or len(use) != 2 or not all(map(_is_count, use)):
        return None
    return Note(_count(token), resources(_count(use[0]), _count(use[1])), _count(slot))


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < _LARGEST


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0
