"""Addresses that may carry a password: never shown whole, and never repeated in an error.

The text of a wrong address is not part of the problem that is told: it may hold the password, mistyped.
"""

from __future__ import annotations

from urllib.parse import SplitResult, quote, urlsplit, urlunsplit

HIDDEN = "***"
"""What is shown in place of a secret."""


class SecretUrl:
    """An address whose password only `reveal` gives; `str` and `repr` show `***`.

    Raises:
        ValueError: not an address of one of `schemes`; the text does not repeat it.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str, schemes: tuple[str, ...]) -> None:
        parts = _split(text)
        if parts.scheme not in schemes:
            raise ValueError("must begin with " + " or ".join(f"{scheme}://" for scheme in schemes))
        if parts.scheme == "unix":
            if parts.netloc.rpartition("@")[2] or not parts.path.startswith("/"):
                raise ValueError("must name a socket by its whole path, as in unix:///run/redis.sock")
        elif not parts.hostname:
            raise ValueError("must name a host")
        if parts.fragment:
            raise ValueError("must not have a part after #")
        self._text = text

    def reveal(self) -> str:
        """The whole address, for the client that connects; never for a log or a screen."""
        return self._text

    @property
    def parts(self) -> SplitResult:
        """The parts of the whole address, password included."""
        return urlsplit(self._text)

    @property
    def has_password(self) -> bool:
        """Whether a password is written in it."""
        return bool(self.parts.password)

    def with_password(self, password: str) -> SecretUrl:
        """The same address with this password, which may hold any character."""
        parts = self.parts
        user, place = parts.username or "", parts.netloc.rpartition("@")[2]
        netloc = f"{user}:{quote(password, safe='')}@{place}"
        return SecretUrl(urlunsplit(parts._replace(netloc=netloc)), (parts.scheme,))

    def __str__(self) -> str:
        parts = self.parts
        credentials, found, place = parts.netloc.rpartition("@")
        if not found:
            return self._text
        # A lone user is hidden too: some servers take a token there.
        user, has_password, _ = credentials.partition(":")
        shown = f"{user}:{HIDDEN}" if has_password else HIDDEN
        return urlunsplit(parts._replace(netloc=f"{shown}@{place}"))

    def __repr__(self) -> str:
        return f"SecretUrl({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretUrl) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


def _split(text: str) -> SplitResult:
    if any(character.isspace() or not character.isprintable() for character in text):
        raise ValueError("must not hold spaces or control characters")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError("is not an address: its host or port can't be read") from None
    if port == 0:
        raise ValueError("must not have port 0")
    return parts
