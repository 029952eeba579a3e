"""Networks, names and tokens: who is let in."""

from __future__ import annotations

import pytest

from app.protocols.access import AllowedAddresses, is_bearer, is_same_host, parse_ip, parse_network


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("11.0.0.1", False),
        ("fd00::7%eth0", True),
        ("fe80::1", False),
        ("WORKER-1", True),
        ("worker-2", False),
        ("", False),
    ],
)
def test_an_address_is_in_a_network_and_a_name_is_one_of_the_names(host: str, expected: bool) -> None:
    networks = (parse_network("10.0.0.0/8"), parse_network("fd00::/64"))
    assert AllowedAddresses(networks, frozenset({"worker-1"})).has(host) is expected


def test_nothing_is_allowed_by_nothing() -> None:
    assert not AllowedAddresses().has("127.0.0.1")


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("Bearer s3cret", True),
        ("bearer  s3cret ", True),
        ("Bearer s3cre", False),
        ("Bearer s3cret2", False),
        ("Basic s3cret", False),
        ("s3cret", False),
        ("", False),
        ("Bearer \u20ac", False),
    ],
)
def test_a_bearer_token_is_the_whole_token_of_that_scheme(header: str, expected: bool) -> None:
    assert is_bearer(header, "s3cret") is expected


def test_a_token_beyond_ascii_comes_as_its_bytes() -> None:
    assert is_bearer("Bearer " + "gru\u00df".encode().decode("latin-1"), "gru\u00df")


def test_one_address_is_a_network_and_text_is_none() -> None:
    assert str(parse_network("10.0.0.7")) == "10.0.0.7/32"
    assert str(parse_network("10.0.0.7/8")) == "10.0.0.0/8"
    assert parse_ip("example.org") is None
    with pytest.raises(ValueError):
        parse_network("10.0.0.0/33")


def test_localhost_is_any_loopback_address_and_a_name_is_no_caller() -> None:
    assert is_same_host("127.0.0.9", "localhost")
    assert not is_same_host("local", "localhost")
    assert is_same_host("::ffff:10.0.0.1", "10.0.0.1")
