"""The load that an operator turns: what may be asked for, and by whom."""

from __future__ import annotations

import asyncio

import pytest

from app.guest.access import Access
from app.guest.http_messages import Request, Response
from app.guest.load import DEFAULT_RATE, Load, LoadRunner, read_load
from app.guest.routes import Routes


def test_a_load_is_read_with_its_defaults() -> None:
    assert read_load({"milli_cpu": 3000, "seconds": 60}) == Load(3000, 0, DEFAULT_RATE, 60)
    assert read_load({"memory": 10, "rate": 2, "seconds": 1}) == Load(0, 10, 2, 1)


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ([], "an object"),
        ({"seconds": 60}, "above 0"),
        ({"milli_cpu": 1000}, "seconds"),
        ({"milli_cpu": "1", "seconds": 1}, "milli_cpu"),
        ({"milli_cpu": True, "seconds": 1}, "milli_cpu"),
        ({"milli_cpu": 64_001, "seconds": 1}, "milli_cpu"),
        ({"memory": -1, "seconds": 1}, "memory"),
        ({"memory": 1, "rate": 0, "seconds": 1}, "rate"),
        ({"memory": 1, "seconds": 86_401}, "seconds"),
        ({"memory": 1, "seconds": 1, "cpus": 3}, "unknown field 'cpus'"),
    ],
)
def test_what_is_no_load_is_refused_with_the_field(document: object, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read_load(document)


def ask(routes: Routes, method: str, body: bytes = b"", token: str = "t") -> Response:
    answer = asyncio.run(
        routes.handle(Request(method, "/load", "", {"authorization": f"Bearer {token}"}, body, "127.0.0.1"))
    )
    assert isinstance(answer, Response)
    return answer


def test_a_load_is_served_to_whoever_has_the_token_and_only_where_it_is_on() -> None:
    routes = Routes(Access(token="t"), frozenset({"load"}), load=LoadRunner())
    assert ask(routes, "GET", token="x").status == 401
    assert ask(routes, "GET").body == b'{"is_running":false,"ended":null}'
    for body in (b"", b"[]", b'{"seconds": 1}', b"[" * 1000, b" " * 2000):
        assert ask(routes, "PUT", body).status == 400
    assert ask(routes, "POST").status == 405
    assert ask(routes, "DELETE").status == 200
    assert ask(Routes(Access()), "GET").status == 404
    broken = Routes(Access(token="t"), frozenset({"load"}), load=LoadRunner(("/nowhere",)))
    assert ask(broken, "PUT", b'{"milli_cpu": 1000, "seconds": 1}').status == 500
