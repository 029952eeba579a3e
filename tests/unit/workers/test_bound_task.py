from __future__ import annotations

import pytest
from celery import Celery

from app.ports.log_context import log_facts


@pytest.fixture
def app() -> Celery:
    return Celery("test", task_cls="workers.bound_task:BoundTask", set_as_current=False)


def test_a_tasks_lines_name_it_and_its_vm_and_bucket(app: Celery) -> None:
    seen: dict[str, str] = {}

    @app.task(name="vmscaler.upscale")  # type: ignore[untyped-decorator]
    def upscale(vm: str, bucket: str, **shown: str) -> None:
        seen.update(log_facts())

    upscale.apply(kwargs={"vm": "ns/a", "bucket": "b-00", "from": "1"}, task_id="id-1")
    assert seen == {"task": "vmscaler.upscale", "task_id": "id-1", "vm": "ns/a", "bucket": "b-00"}
    assert log_facts() == {}


def test_a_poll_names_its_bucket_and_a_tick_only_itself(app: Celery) -> None:
    seen: list[dict[str, str]] = []

    @app.task(name="vmscaler.poll_bucket")  # type: ignore[untyped-decorator]
    def poll_bucket(bucket: str, seq: int) -> None:
        seen.append(dict(log_facts()))

    @app.task(bind=True, name="vmscaler.tick")  # type: ignore[untyped-decorator]
    def tick(self: object) -> None:
        seen.append(dict(log_facts()))

    poll_bucket.apply(args=("b-00", 7), task_id="id-1")
    tick.apply(task_id="id-2")
    assert seen == [
        {"task": "vmscaler.poll_bucket", "task_id": "id-1", "bucket": "b-00"},
        {"task": "vmscaler.tick", "task_id": "id-2"},
    ]


def test_what_a_failed_task_has_bound_is_cleared(app: Celery) -> None:
    @app.task(name="broken")  # type: ignore[untyped-decorator]
    def broken() -> None:
        raise ValueError("broken")

    assert broken.apply().failed()
    assert log_facts() == {}
