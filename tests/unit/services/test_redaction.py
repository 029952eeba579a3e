"""Secrets are taken out of texts, however they are spelled; what is none stays as it is."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.services.redaction import SHORTEST, Redaction

SECRET = 'p@ss"w/rd:1 ü'
PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQE\n-----END PRIVATE KEY-----"


@pytest.mark.parametrize(
    "spelled",
    [
        SECRET,
        quote(SECRET, safe=""),
        json.dumps(SECRET),
        json.dumps(json.dumps({"url": SECRET})),
        json.dumps(SECRET, ensure_ascii=False),
        base64.b64encode(SECRET.encode()).decode(),
        repr(SECRET),
    ],
)
def test_a_known_secret_is_found_in_each_of_its_spellings(spelled: str) -> None:
    cleaned = Redaction([SECRET]).clean(f"before {spelled} after")
    assert "***" in cleaned
    assert cleaned.startswith("before")
    assert cleaned.endswith("after")
    for part in ("ss", "w/rd", "w%2Frd", base64.b64encode(SECRET.encode()).decode()[:8]):
        assert part not in cleaned


def test_the_lines_of_a_secret_are_found_one_by_one_and_without_white_space() -> None:
    redaction = Redaction(["first-line\n  second-line\n"])
    assert redaction.clean("a first-line b second-line c") == "a *** b *** c"


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("redis://:hunter22@db:6379/0", "redis://***@db:6379/0"),
        ("rediss://user:p%40ss@db", "rediss://***@db"),
        ("https://tok3n@hooks.example/x", "https://***@hooks.example/x"),
        ("Authorization: Bearer abc.def-123", "Authorization: Bearer ***"),
        ("authorization: basic dXNlcjpwYXNz", "authorization: basic ***"),
        ('{"password": "hunter22", "n": 1}', '{"password": "***", "n": 1}'),
        ('{"password":"hun\\"ter"}', '{"password":"***"}'),
        ('"{\\"token\\": \\"abcdef\\"}"', '"{\\"token\\": \\"***\\"}"'),
        (json.dumps(json.dumps({"token": 'a"b', "n": 1})), json.dumps(json.dumps({"token": "***", "n": 1}))),
        ("password=hunter22 host=db", "password=*** host=db"),
        ("client_secret: abcdef", "client_secret: ***"),
        ("api-key='abc def' x", "api-key='***' x"),
        (PEM, "***"),
        (json.dumps(PEM), '"***"'),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmN", "***"),
    ],
)
def test_what_looks_like_a_secret_is_hidden_without_being_known(text: str, cleaned: str) -> None:
    assert Redaction([]).clean(text) == cleaned


@pytest.mark.parametrize(
    "text",
    [
        '{"token": 1795989385752, "holder": null}',
        'tokenFile: "/etc/vmscaler/token"',
        '"passwordFile": null',
        '{"secret": null, "password": false}',
        "http://127.0.0.1:9100/metrics",
        "the bearer of bad news",
        "worker1_10.0.0.1 took autoscaler-bucket-00-of-16",
        "redis://***@db:6379/0",
        "me@example.org",
    ],
)
def test_what_is_no_secret_stays_as_it_is(text: str) -> None:
    assert Redaction(["hunter22"]).clean(text) == text


def test_a_secret_whose_text_was_cut_is_hidden_too() -> None:
    redaction = Redaction(["correct-horse-battery"])
    assert redaction.clean("redis://:correct-hor…") == "redis://:***…"
    assert redaction.clean("see correct-hills…") == "see correct-hills…"


def test_a_secret_that_is_part_of_another_leaves_nothing_of_the_longer_one() -> None:
    assert Redaction(["hunter", "hunter22"]).clean("hunter22") == "***"


@given(
    st.text(st.characters(codec="utf-8", exclude_characters="*"), min_size=SHORTEST, max_size=40).filter(
        lambda text: len(text.strip()) >= SHORTEST
    ),
    st.text(max_size=20),
    st.text(max_size=20),
)
def test_no_known_secret_survives_between_any_texts(secret: str, before: str, after: str) -> None:
    cleaned = Redaction([secret]).clean(f"{before}{secret}{after}")
    assert secret not in cleaned or secret in before + after


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=20),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.sampled_from(["password", "token", "x", "url"]), inner)
        ),
    )
)
def test_json_stays_json(value: object) -> None:
    json.loads(Redaction(["hunter22"]).clean(json.dumps({"v": value, "token": "hunter22"})))
