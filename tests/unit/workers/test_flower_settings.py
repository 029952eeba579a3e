from __future__ import annotations

from celery import Celery

from workers.flower import configure_flower, is_flower


def test_flower_listens_on_loopback_unless_told_otherwise() -> None:
    environ: dict[str, str] = {}
    configure_flower(Celery("test"), 4, environ)
    assert environ["FLOWER_ADDRESS"] == "127.0.0.1"
    told = {"FLOWER_ADDRESS": "10.0.0.1"}
    configure_flower(Celery("test"), 4, told)
    assert told["FLOWER_ADDRESS"] == "10.0.0.1"


def test_flower_shows_the_queue_of_every_bucket() -> None:
    celery = Celery("test")
    celery.conf.task_default_queue = "vmscaler"
    configure_flower(celery, 3, {})
    names = [queue.name for queue in celery.conf.task_queues]
    assert names == ["vmscaler", *(f"autoscaler-bucket-0{index}-of-03" for index in range(3))]


def test_a_worker_is_not_taken_for_flower() -> None:
    assert is_flower(["celery", "-A", "workers", "flower", "--port=1"])
    assert not is_flower(["celery", "-A", "workers", "worker", "-n", "flowerpot@%h"])
