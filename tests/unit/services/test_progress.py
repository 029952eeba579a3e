"""What counts as progress, and when a worker has to be ended."""

from __future__ import annotations

from collections.abc import Iterable

from app.errors import StoreUnavailable
from app.services.progress import Progress, ProgressLimits, Watch


class Queues:
    """Task queues with so much in them; None: Redis is away."""

    def __init__(self) -> None:
        self.messages: int | None = 0
        self.asked: list[list[str]] = []

    def waiting(self, names: Iterable[str]) -> int:
        self.asked.append(list(names))
        if self.messages is None:
            raise StoreUnavailable("redis", "no connection")
        return self.messages


def a_progress(blocked: int = 15, idle: int = 20) -> tuple[Progress, Queues]:
    queues = Queues()
    return Progress(ProgressLimits(blocked, idle), queues, lambda: ["vmscaler", "b"]), queues


def turns(progress: Progress, count: int) -> None:
    for _ in range(count):
        progress.turn()


def test_a_worker_that_ends_no_task_while_some_wait_has_to_be_ended() -> None:
    progress, queues = a_progress(idle=20)
    queues.messages = 3
    turns(progress, 20)
    assert progress.verdict() is None
    turns(progress, 2)
    assert progress.verdict() == (
        "3 tasks wait in this worker's queues, Redis answers, and no task has ended for 21 s"
    )
    assert queues.asked[0] == ["vmscaler", "b"]


def test_half_of_the_time_before_it_is_ended_the_operator_is_told() -> None:
    progress, queues = a_progress(idle=20)
    queues.messages = 3
    turns(progress, 10)
    assert progress.problems() == []
    turns(progress, 1)
    (problem,) = progress.problems()
    assert "no task has ended for 10 s" in problem


def test_a_worker_that_ends_tasks_again_no_longer_says_that_redis_is_away() -> None:
    progress, queues = a_progress()
    queues.messages = None
    turns(progress, 2)
    assert progress.redis_problem == "no connection"
    progress.task_ended()
    turns(progress, 1)
    assert progress.redis_problem == ""


def test_a_worker_that_ends_tasks_asks_no_queue_and_is_well_however_many_wait() -> None:
    progress, queues = a_progress()
    queues.messages = 1000
    for _ in range(100):
        progress.task_ended()
        progress.turn()
    assert queues.asked == []
    assert progress.verdict() is None


def test_one_task_that_ends_starts_the_count_anew() -> None:
    progress, queues = a_progress(idle=20)
    queues.messages = 1
    turns(progress, 20)
    progress.task_ended()
    turns(progress, 20)
    assert progress.verdict() is None


def test_without_beat_nothing_waits_and_nothing_is_wrong() -> None:
    progress, _ = a_progress(idle=20)
    turns(progress, 1000)
    assert progress.verdict() is None
    assert progress.problems() == []


def test_a_redis_that_is_away_is_no_lack_of_progress_and_starts_the_count_anew() -> None:
    progress, queues = a_progress(idle=20)
    queues.messages = 5
    turns(progress, 15)
    queues.messages = None
    turns(progress, 1000)
    assert progress.verdict() is None
    assert progress.redis_problem == "no connection"
    queues.messages = 5
    turns(progress, 19)
    assert progress.verdict() is None
    assert progress.redis_problem == ""
    turns(progress, 1)
    assert progress.verdict() is not None


def test_a_loop_without_turns_has_to_be_ended_after_its_time() -> None:
    progress, _ = a_progress(blocked=15)
    watch = Watch(progress)
    progress.turn()
    assert [watch.turn() for _ in range(15)] == [None] * 15
    assert watch.turn() == "nothing has had a turn for 15 s: something blocks the whole worker"


def test_a_process_that_was_stopped_and_wakes_up_has_lost_no_time() -> None:
    progress, _ = a_progress(blocked=3)
    watch = Watch(progress)
    # Neither the loop nor the watchdog has turns while stopped; after it each may be the first.
    for _ in range(100):
        assert watch.turn() is None
        assert watch.turn() is None
        progress.turn()


def test_a_loop_that_never_had_a_turn_is_blocked_too() -> None:
    progress, _ = a_progress(blocked=15)
    watch = Watch(progress)
    assert [watch.turn() for _ in range(15)] == [None] * 15
    assert watch.turn() is not None


def test_a_worker_that_stops_is_left_alone() -> None:
    progress, queues = a_progress(blocked=3, idle=3)
    watch = Watch(progress)
    queues.messages = 1
    turns(progress, 100)
    progress.is_over = True
    assert [watch.turn() for _ in range(100)] == [None] * 100


def test_a_limit_of_zero_is_none() -> None:
    progress, queues = a_progress(blocked=0, idle=0)
    queues.messages = 1
    watch = Watch(progress)
    turns(progress, 1000)
    assert [watch.turn() for _ in range(1000)] == [None] * 1000
    assert progress.problems() == []
