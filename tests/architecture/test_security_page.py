"""docs/security.md: its limits are those of the code, its users are those of compose/redis/users.acl."""

from __future__ import annotations

import dataclasses
import importlib
import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from tests.redis_users import ROLES, USERS_FILE

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
UNITS = {"": 1, "s": 1, "KiB": 1024, "MiB": 1024 * 1024}

_LIMIT = re.compile(r"^\| [^|]+ \| ([0-9]+) ?(s|KiB|MiB|) \| `(app\.[A-Za-z_.]+)` \|$", re.MULTILINE)
LIMITS = [(int(number) * UNITS[unit], name) for number, unit, name in _LIMIT.findall(PAGE)]


def value_of(name: str) -> object:
    """A constant of a module, or the default of a field of one of its classes."""
    holder, _, last = name.rpartition(".")
    try:
        return getattr(importlib.import_module(holder), last)
    except ImportError:
        module, _, cls = holder.rpartition(".")
        kind = getattr(importlib.import_module(module), cls)
    if issubclass(kind, BaseModel):
        return kind.model_fields[last].default
    return {field.name: field.default for field in dataclasses.fields(kind)}[last]


@pytest.mark.parametrize(("limit", "name"), LIMITS, ids=[name for _, name in LIMITS])
def test_a_limit_is_what_the_code_says(limit: int, name: str) -> None:
    assert value_of(name) == limit


def test_every_row_of_the_limits_is_held_against_the_code() -> None:
    table = PAGE.partition("## Limits")[2].partition("## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) == len(LIMITS) > 20


def test_the_page_tells_of_each_user_of_redis() -> None:
    users = {line.split()[1] for line in USERS_FILE.read_text().splitlines()}
    assert users == {*ROLES, "default"}
    assert [user for user in users if f"| `{user}` |" not in PAGE] == []


def test_no_user_of_redis_has_a_password_in_the_tree_or_needs_none() -> None:
    for line in USERS_FILE.read_text().splitlines():
        assert not re.search(r"\s[>#<!]|nopass|allkeys|allchannels|~\*\s|&\*\s", line), line
        assert " resetchannels " in line
