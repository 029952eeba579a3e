"""Takes secrets out of text that leaves the house: known ones wherever they stand, others by their looks.

Known are the passwords and tokens of the configuration (`app.config.secrets`), also as they look in an
address, in JSON and in base64, and their beginnings where a text was cut. By their looks: what stands before
the `@` of an address, bearer tokens, private keys, values of fields that are called password, token or the
like. Numbers stay: a lease's fencing token is one.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

HIDDEN = "***"
"""What stands in place of a secret."""

SHORTEST = 4
"""Characters of the shortest secret that is looked for; a shorter one would be found in ordinary words."""

CUT_AT = 6
"""Characters of a secret's beginning that are taken out where `…` follows: the text was cut there."""

_CUT = re.compile(r"(\S{6,})(…|\\u2026)")
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
)
_USER_INFO = re.compile(r"\b([A-Za-z][A-Za-z0-9+.-]*://)[^\s/?#\"'<>\\]*@")
_AUTHORIZATION = re.compile(r"\b(Bearer|Basic|Digest)(\s+)(?!\*\*\*)[A-Za-z0-9._~+/=-]{6,}", re.IGNORECASE)
_JWT = re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*")
_FIELD = re.compile(
    r"""((?:\b|_)(?:pass(?:word|wd)?|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credentials?)
    \\?["']?\s*[:=]\s*)  # the field's name, perhaps in quotes, perhaps in a JSON text within another
    (?!\\?["']?(?:\*\*\*|null\b|none\b|true\b|false\b|-?[0-9]+\b(?!\w)))
    ( "(?:[^"\\]|\\.)*"                          # in JSON
    | \\"(?:\\\\\\"|\\\\.|(?!\\").)*\\"         # in JSON within JSON
    | '[^']*'
    | [^\s,;&"'\\\[\]{}]+ )""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)


class Redaction:
    """Cleans texts.

    Args:
        secrets: known ones; those of several lines count line by line, too.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        spellings: set[str] = set()
        for secret in secrets:
            for part in {secret, secret.strip(), *(line.strip() for line in secret.splitlines())}:
                if len(part) >= SHORTEST:
                    spellings |= _spellings(part)
        # The longest first: one may be a part of another.
        listed = sorted(spellings, key=lambda text: (-len(text), text))
        self._known = re.compile("|".join(map(re.escape, listed))) if listed else None
        self._beginnings = {text[:CUT_AT] for text in listed if len(text) >= CUT_AT}
        self._spellings = listed

    def clean(self, text: str) -> str:
        """The text without what is known to be secret, and without what looks so."""
        if self._known is not None:
            text = _CUT.sub(self._hide_beginning, self._known.sub(HIDDEN, text))
        text = _PRIVATE_KEY.sub(HIDDEN, text)
        text = _USER_INFO.sub(rf"\1{HIDDEN}@", text)
        text = _AUTHORIZATION.sub(rf"\1\2{HIDDEN}", text)
        text = _JWT.sub(HIDDEN, text)
        return _FIELD.sub(_hide_value, text)

    def _hide_beginning(self, found: re.Match[str]) -> str:
        word = found[1]
        for start in range(len(word) - CUT_AT + 1):
            rest = word[start:]
            if rest[:CUT_AT] in self._beginnings and any(each.startswith(rest) for each in self._spellings):
                return f"{word[:start]}{HIDDEN}{found[2]}"
        return found[0]


def _hide_value(found: re.Match[str]) -> str:
    """The field's name and quotes stay, so that JSON stays JSON."""
    name, value = found[1], found[2]
    for mark in ('\\"', '"', "'"):
        if value.startswith(mark):
            return f"{name}{mark}{HIDDEN}{mark}"
    return f"{name}{HIDDEN}"


def _spellings(secret: str) -> set[str]:
    """How a secret may look in an address, in JSON (once and twice), and in base64."""
    in_json = json.dumps(secret)[1:-1]
    spelled = {
        secret,
        quote(secret, safe=""),
        quote(secret),
        quote_plus(secret),
        in_json,
        json.dumps(secret, ensure_ascii=False)[1:-1],
        json.dumps(in_json)[1:-1],
        repr(secret)[1:-1],
    }
    raw = secret.encode("utf-8", "surrogateescape")
    for encoded in (base64.b64encode(raw), base64.urlsafe_b64encode(raw)):
        spelled.add(encoded.decode().rstrip("="))
    return {text for text in spelled if len(text) >= SHORTEST}
