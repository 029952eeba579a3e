"""Text from peers, made safe to show: on a terminal, in a log line, in a table.

Whatever a monitor, a guest, a scheduler or a platform says is untrusted: it may hold escape sequences,
line breaks, bidirectional controls, or be very long. It is escaped and cut wherever it is shown.
"""

from __future__ import annotations

PEER_TEXT_LIMIT = 200
"""Characters of a peer's text that are shown."""

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str, limit: int = PEER_TEXT_LIMIT) -> str:
    """`text` in one line of at most `limit` characters, with nothing in it that acts on a terminal.

    Controls, format characters (bidirectional ones, zero-width ones), surrogates and separators other than
    the space are written as escapes; a cut text ends in `…`. The second time changes nothing.
    """
    pieces: list[str] = []
    length = 0
    for character in text[: limit + 1]:
        piece = character if character.isprintable() else _escape(character)
        pieces.append(piece)
        length += len(piece)
    if length <= limit:
        return "".join(pieces)
    while pieces and length > limit - 1:
        length -= len(pieces.pop())
    return "".join(pieces) + "…"[:limit]


def _escape(character: str) -> str:
    """The character as Python would spell it in a string literal."""
    if character in _SHORT:
        return _SHORT[character]
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
