"""`POST /v1/stats` as a sender sees it: each status, without a socket."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import pytest

from app.protocols.stat_tokens import vm_token
from app.protocols.stats import Stat
from app.services.stat_intake import IntakeLimits, StatIntake
from app.web.replies import text_reply
from app.web.stats import add_stats_page
from app.web.worker import WorkerApplication
from tests.fakes.clock import FakeClock

SECRET = "0123456789abcdef"
KEY = "default/db"


class Page:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.taken: list[Stat] = []
        self.has_room = True
        self.application = WorkerApplication()
        limits = IntakeLimits(max_entries=5, max_bytes=1000, per_s=1.0)
        add_stats_page(self.application, StatIntake(self._take, SECRET, self.clock, limits))

    def _take(self, stats: Sequence[Stat]) -> bool:
        self.taken += stats if self.has_room else []
        return self.has_room

    def entry(self, **changes: Any) -> dict[str, Any]:
        entry = {"key": KEY, "load1": 1, "load5": 1, "memTotalBytes": 2, "memAvailableBytes": 1}
        return {**entry, "timestamp": self.clock.wall_ms(), **changes}

    def ask(
        self, body: bytes, token: str | None, *, method: str = "POST", path: str = "/v1/stats"
    ) -> tuple[int, str]:
        statuses: list[str] = []
        environ: dict[str, Any] = {
            "REQUEST_METHOD": method,
            "PATH_INFO": path,
            "wsgi.input": io.BytesIO(body),
        }
        if token is not None:
            environ["HTTP_AUTHORIZATION"] = token
        answer = b"".join(self.application(environ, lambda status, headers: statuses.append(status)))  # type: ignore[arg-type]
        return int(statuses[0].split()[0]), answer.decode()

    def push(self, *entries: object) -> tuple[int, str]:
        return self.ask(json.dumps(entries).encode(), f"Bearer {vm_token(SECRET, KEY)}")


@pytest.fixture
def page() -> Page:
    return Page()


def test_202_for_a_list_that_is_taken(page: Page) -> None:
    assert page.push(page.entry(), page.entry()) == (202, "2 taken")
    assert [stat.key for stat in page.taken] == [KEY, KEY]


def test_400_with_the_index_and_the_field(page: Page) -> None:
    status, text = page.push(page.entry(), page.entry(load5=None))
    assert (status, text) == (400, "[1].load5: not a number")
    assert page.taken == []


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        f"Basic {vm_token(SECRET, KEY)}",
        f"Bearer {vm_token(SECRET, 'default/other')}",
        f"Bearer {vm_token('another secret', KEY)}",
        "Bearer " + "a" * 10_000,
        "Bearer \xe9",
    ],
)
def test_401_without_the_vms_token(page: Page, header: str | None) -> None:
    status, _ = page.ask(json.dumps([page.entry()]).encode(), header)
    assert status == 401
    assert page.taken == []


def test_413_for_a_long_body_and_for_a_long_list(page: Page) -> None:
    assert page.ask(b" " * 1001, f"Bearer {vm_token(SECRET, KEY)}")[0] == 413
    assert page.push(*([{}] * 6))[0] == 413
    assert page.taken == []


def test_429_when_full_and_over_the_senders_rate(page: Page) -> None:
    page.has_room = False
    assert page.push(page.entry()) == (429, "the inbox is full; send again later")
    page.has_room = True
    assert page.push(*[page.entry()] * 5)[0] == 202
    assert page.push(page.entry())[0] == 429
    assert len(page.taken) == 5


def test_other_methods_and_pages_are_none(page: Page) -> None:
    assert page.ask(b"", None, method="GET")[0] == 405
    assert page.ask(b"", None, path="/v1/other")[0] == 404


def test_a_bug_in_a_page_is_a_500_without_a_word_of_it(page: Page) -> None:
    def fail(environ: object) -> Any:
        raise KeyError("internal")

    page.application.add("GET", "/bad", fail)
    page.application.add("GET", "/good", lambda environ: text_reply(HTTPStatus.OK, "fine"))
    status, text = page.ask(b"", None, method="GET", path="/bad")
    assert status == 500
    assert page.ask(b"", None, method="GET", path="/good") == (200, "fine")
    assert "internal error" in text
    assert "KeyError" not in text
