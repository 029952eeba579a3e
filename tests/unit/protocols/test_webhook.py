"""Bodies of templates and their signatures."""

from __future__ import annotations

import hashlib
import hmac
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import InvalidInput
from app.protocols.scaling_event import TEMPLATE_NAMES
from app.protocols.webhook import check_template, is_signed, render, sign

SECRET = "sixteen bytes, or more"
SLACK = '{"text": "{{ text }}", "cpu": {{to_cpu_m}}, "vm": "{{vm}}"}'


def test_a_template_gets_its_values() -> None:
    check_template(SLACK, TEMPLATE_NAMES)
    body = render(SLACK, {"text": "up", "to_cpu_m": 2000, "vm": None})
    assert json.loads(body) == {"text": "up", "cpu": 2000, "vm": ""}


@given(st.text())
def test_no_value_leaves_the_string_that_it_stands_in(value: str) -> None:
    body = render(SLACK, {"text": value, "to_cpu_m": 1, "vm": value})
    assert json.loads(body) == {"text": value, "cpu": 1, "vm": value}


def test_a_value_is_not_a_template_itself() -> None:
    assert json.loads(render('{"a":"{{text}}"}', {"text": "{{vm}}", "vm": "x"})) == {"a": "{{vm}}"}


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ('{"a":"{{vm.__class__}}"}', "unknown name"),
        ('{"a":"{{}}"}', "unknown name"),
        ('{"a": {{vm}} }', "not JSON"),
        ('{"a": "{{vm}}"', "not JSON"),
        ("{{text}}", "not JSON"),
        ("[" * 9_000, "not JSON"),
        ('{"a": {{from_cpu_m}}{{to_cpu_m}}}', "not JSON"),
        ('{"a": 1{{to_cpu_m}}, "b": NaN}', "not JSON"),
    ],
)
def test_a_template_that_cannot_make_json_of_every_event_is_refused(template: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        check_template(template, TEMPLATE_NAMES)


def test_the_signature_is_what_the_page_says() -> None:
    header = sign(SECRET, b'{"a":1}', 1_700_000_000)
    digest = hmac.new(SECRET.encode(), b'1700000000.{"a":1}', hashlib.sha256).hexdigest()
    assert header == f"t=1700000000,v1={digest}"


def test_a_signature_holds_for_its_body_its_secret_and_some_minutes() -> None:
    header = sign(SECRET, b"body", 1_000)
    assert is_signed(SECRET, b"body", header, 1_300)
    assert not is_signed(SECRET, b"body", header, 1_301)
    assert not is_signed(SECRET, b"body", header, 699)
    assert not is_signed(SECRET, b"Body", header, 1_000)
    assert not is_signed("another", b"body", header, 1_000)
    assert not is_signed(SECRET, b"body", header.replace("t=1000", "t=1001"), 1_000)
    for garbage in ("", "t=1000", "t=x,v1=y", header + ",v1=0", header.upper()):
        assert not is_signed(SECRET, b"body", garbage, 1_000)
