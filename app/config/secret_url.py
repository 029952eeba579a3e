"""Addresses that may carry a password: never shown whole, and never repeated in an error.

The text of a wrong address is not part of the problem that is told: it may hold the password, mistyped.
"""

from __future__ import annotations

from urllib.parse import SplitResult, quote, urlsplit, urlunsplit

HIDDEN = "***"
"""What is shown in place of a secret."""

SEVERAL_HOSTS = ("sentinel", "sentinels")
"""Schemes whose address may name several hosts, with commas between them."""


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
        else:
            _check_places(parts)
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
    def places(self) -> tuple[tuple[str, int | None], ...]:
        """Hosts and their ports, None where none is written; Sentinels are several, a socket is none."""
        return tuple(_places(self.parts.netloc)) if self.parts.scheme != "unix" else ()

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


class KeyUrl(SecretUrl):
    """An address that is a key itself, as chat services give them out: only its host is shown."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"{self.parts.scheme}://{self.parts.netloc.rpartition('@')[2]}/{HIDDEN}"


def _split(text: str) -> SplitResult:
    if any(character.isspace() or not character.isprintable() for character in text):
        raise ValueError("must not hold spaces or control characters")
    try:
        parts = urlsplit(text)
        places = _places(parts.netloc)
    except ValueError:
        raise ValueError("is not an address: its host or port can't be read") from None
    if any(port == 0 for _, port in places):
        raise ValueError("must not have port 0")
    return parts


def _places(netloc: str) -> list[tuple[str, int | None]]:
    """The hosts of an address, which commas part; raises ValueError where one can't be read."""
    listed = netloc.rpartition("@")[2].split(",")
    parts = [urlsplit(f"//{place}") for place in listed]
    return [(part.hostname or "", part.port) for part in parts]


def _check_places(parts: SplitResult) -> None:
    places = _places(parts.netloc)
    if not all(host for host, _ in places):
        raise ValueError("must name a host")
    if len(places) > 1 and parts.scheme not in SEVERAL_HOSTS:
        raise ValueError("must name one host; several are for " + " and ".join(SEVERAL_HOSTS))
