"""Who may call, and which address of an agent is the caller's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.guest.access import Access, read_token
from app.guest.http_messages import Request
from app.protocols.access import AllowedAddresses, is_same_host, parse_network


def request(peer: str = "10.0.0.1", **headers: str) -> Request:
    return Request("GET", "/", "", headers, b"", peer)


def status(access: Access, asked: Request, *, is_protected: bool = True) -> int | None:
    refusal = access.refusal(asked, is_protected=is_protected)
    return None if refusal is None else refusal.status


@pytest.mark.parametrize(
    ("caller", "host", "expected"),
    [
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("fe80::1%eth0", "fe80::1", True),
        ("fd00::1", "fd00:0:0::1", True),
        ("127.0.0.1", "localhost", True),
        ("::1", "LOCALHOST", True),
        ("10.0.0.1", "localhost", False),
        ("10.0.0.1", "example.org", False),
        ("local", "local", False),
    ],
)
def test_an_agents_address_is_its_callers_own_or_not(caller: str, host: str, expected: bool) -> None:
    assert is_same_host(caller, host) is expected


def test_callers_are_limited_to_networks() -> None:
    access = Access(AllowedAddresses((parse_network("10.0.0.0/8"), parse_network("fd00::1"))))
    peers = ("10.9.9.9", "::ffff:10.1.1.1", "fd00::1", "11.0.0.1", "fd00::2", "local")
    assert [status(access, request(peer)) for peer in peers] == [None, None, None, 403, 403, 403]


def test_an_empty_list_lets_nobody_in() -> None:
    assert status(Access(AllowedAddresses()), request()) == 403


def test_without_a_list_everyone_may_call() -> None:
    assert status(Access(), request()) is None


def test_a_token_is_asked_for_where_a_path_is_protected() -> None:
    access = Access(token="tökn")
    sent = "tökn".encode().decode("latin-1")
    assert status(access, request()) == 401
    assert status(access, request(authorization=f"Bearer {sent}")) is None
    assert status(access, request(authorization=f"Bearer {sent}2")) == 401
    assert status(access, request(authorization="Bearer \udcff")) == 401
    assert status(access, request(), is_protected=False) is None


def test_names_are_compared_as_they_are_written() -> None:
    allowed = AllowedAddresses(names=frozenset({"agent.example.org"}))
    assert allowed.has("Agent.Example.org")
    assert not allowed.has("agent.example.com")
    assert not allowed.has("10.0.0.1")


def test_a_token_file_has_one_line(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("  s3cret \n")
    assert read_token(str(file)) == "s3cret"
    for text in ("", " \n", "a\nb\n", "x" * 5000, "a\tb"):
        file.write_text(text)
        with pytest.raises(ValueError):
            read_token(str(file))
    with pytest.raises(OSError):
        read_token(str(tmp_path / "nothing"))
