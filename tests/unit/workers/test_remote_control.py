from __future__ import annotations

from collections.abc import Iterator

import pytest
from celery.worker.control import Panel

from workers.remote_control import QUESTIONS, REFUSAL, obey_questions_only


@pytest.fixture(autouse=True)
def panel_as_celery_made_it() -> Iterator[None]:
    before = dict(Panel.data)
    yield
    Panel.data.clear()
    Panel.data.update(before)


def test_what_would_change_a_worker_is_refused_and_what_asks_is_answered() -> None:
    known = dict(Panel.data)
    obey_questions_only()
    assert known.keys() == Panel.data.keys()
    assert known.keys() >= QUESTIONS
    for name in (
        "shutdown",
        "cancel_consumer",
        "add_consumer",
        "revoke",
        "terminate",
        "pool_shrink",
        "rate_limit",
    ):
        assert Panel.data[name](None, tasks=1) == {"error": REFUSAL}
    assert {name for name in QUESTIONS if Panel.data[name] is not known[name]} == set()


def test_every_command_of_celery_that_changes_something_is_among_the_refused() -> None:
    obey_questions_only()
    changing = {name for name, meta in Panel.meta.items() if meta.type == "control"}
    assert changing - {"heartbeat"} <= {name for name in Panel.data if name not in QUESTIONS}
    assert all(Panel.data[name](None)["error"] == REFUSAL for name in changing - {"heartbeat"})
