"""A webhook's body can't be broken out of by what is inserted; its signature proves who sent it, and when."""

from __future__ import annotations

import json

import pytest

from app.errors import InvalidInput
from app.protocols.scaling_event import KINDS, NOTICES, TEMPLATE_NAMES
from app.protocols.webhook import TOLERANCE_S, Value, check_template, is_signed, render, sign

TEMPLATE = '{"text": "{{ vm }}: {{why}}", "cpu": {{to_cpu_m}}}'
NOW_S = 1_700_000_000


def test_values_stand_where_their_names_stood() -> None:
    body = render(TEMPLATE, {"vm": "default/db", "why": "load", "to_cpu_m": 250})
    assert json.loads(body) == {"text": "default/db: load", "cpu": 250}


@pytest.mark.parametrize("why", ['", "x": "', "a\\", "line\nfeed", "\ud800", "{{vm}}", "ä"])
def test_no_value_leaves_the_string_that_it_stands_in(why: str) -> None:
    check_template(TEMPLATE, TEMPLATE_NAMES)
    body = json.loads(render(TEMPLATE, {"vm": "default/db", "why": why, "to_cpu_m": 1}))
    assert body == {"text": f"default/db: {why}", "cpu": 1}


def test_what_has_no_value_leaves_nothing() -> None:
    assert render('"{{why}}{{other}}"', {"why": None}) == b'""'


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ('"{{secret}}"', "unknown name.*why"),
        ("{{why}}", "not JSON"),
        ('{"a": ', "not JSON"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_a_template_that_cannot_work_is_refused(template: str, problem: str) -> None:
    names: dict[str, Value] = {"why": "5", "to_cpu_m": 1}
    with pytest.raises(InvalidInput, match=problem):
        check_template(template, names)


def test_a_signature_is_good_for_one_secret_body_and_time() -> None:
    header = sign("secret", b"{}", NOW_S)
    assert header.startswith(f"t={NOW_S},v1=")
    assert is_signed("secret", b"{}", header, NOW_S)
    assert not is_signed("Secret", b"{}", header, NOW_S)
    assert not is_signed("secret", b"{ }", header, NOW_S)
    assert not is_signed("secret", b"{}", header.replace(f"t={NOW_S}", f"t={NOW_S + 1}"), NOW_S)


@pytest.mark.parametrize(("late_s", "is_good"), [(TOLERANCE_S, True), (TOLERANCE_S + 1, False)])
def test_a_signature_is_good_for_a_while_in_both_directions(late_s: int, is_good: bool) -> None:
    header = sign("secret", b"{}", NOW_S)
    assert is_signed("secret", b"{}", header, NOW_S + late_s) is is_good
    assert is_signed("secret", b"{}", header, NOW_S - late_s) is is_good


@pytest.mark.parametrize("header", ["", "v1=00", f"t={NOW_S}", f"t={NOW_S},v1=zz", f"t=-1,v1={'0' * 64}"])
def test_what_is_no_signature_is_none(header: str) -> None:
    assert not is_signed("secret", b"{}", header, NOW_S)


def test_what_begins_and_ends_is_among_what_may_be_told() -> None:
    assert set(NOTICES) < set(KINDS)
    assert len(set(KINDS)) == len(KINDS)
