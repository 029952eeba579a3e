from __future__ import annotations

import logging

from app.adapters import log_rates
from app.adapters.log_rates import LogRates
from app.ports.log_context import log_context


def a_record(at: float, message: str = "denied", name: str = "app.x", **facts: object) -> logging.LogRecord:
    return logging.makeLogRecord({"name": name, "msg": message, "created": at, **facts})


def texts(lines: list[logging.LogRecord]) -> list[str]:
    return [line.getMessage() for line in lines]


def written(rates: LogRates, *records: logging.LogRecord) -> int:
    return sum(record in rates.let_through(record) for record in records)


def test_one_peer_gets_so_many_lines_a_minute_and_the_others_theirs() -> None:
    rates = LogRates(10, 1_000)
    assert written(rates, *(a_record(100.0, vm="ns/noisy") for _ in range(500))) == 10
    assert written(rates, *(a_record(100.0, vm=f"ns/vm-{i}") for i in range(300))) == 300
    assert written(rates, a_record(100.0, "another sentence", vm="ns/noisy")) == 1


def test_a_peer_that_goes_on_is_written_at_the_rate_and_says_how_much_was_left_out() -> None:
    rates = LogRates(6, 1_000)
    records = [a_record(100.0 + i / 10, peer="10.0.0.1") for i in range(6_000)]
    let = [record for record in records if record in rates.let_through(record)]
    assert 60 <= len(let) <= 66
    told = sum(getattr(record, "left_out", 0) for record in let)
    assert told + len(let) >= 6_000 - 100


def test_the_vm_of_the_task_counts_where_the_record_names_none() -> None:
    rates = LogRates(1, 1_000)
    for vm in ("ns/a", "ns/b"):
        with log_context(vm=vm):
            assert written(rates, a_record(100.0), a_record(100.0)) == 1


def test_what_was_left_out_is_told_when_the_peer_has_fallen_silent() -> None:
    rates = LogRates(1, 1_000)
    for _ in range(8):
        rates.let_through(a_record(100.0, vm="ns/a"))
    assert texts(rates.let_through(a_record(130.0, "else"))) == ["else"]
    told, _ = rates.let_through(a_record(171.0, "something else"))
    assert (told.getMessage(), told.left_out, told.of, told.about) == ("lines left out", 7, "denied", "ns/a")  # type: ignore[attr-defined]
    assert list(rates.remaining()) == []


def test_at_the_end_everything_is_told() -> None:
    rates = LogRates(1, 1_000)
    for _ in range(3):
        rates.let_through(a_record(100.0))
    (told,) = rates.remaining()
    assert told.left_out == 2  # type: ignore[attr-defined]


def test_the_whole_process_has_a_bound_too() -> None:
    rates = LogRates(60, 50)
    assert written(rates, *(a_record(100.0, vm=f"ns/vm-{i}") for i in range(2_000))) == 50
    told = [
        line for line in rates.remaining() if getattr(line, "of", "") == "more than this process may write"
    ]
    assert told[0].left_out == 1_950  # type: ignore[attr-defined]


def test_a_librarys_messages_count_together_since_each_may_be_another() -> None:
    rates = LogRates(10, 1_000)
    records = [a_record(100.0, f"peer {i} failed", name="websocket") for i in range(100)]
    assert written(rates, *records) == 10


def test_a_clock_that_goes_back_gives_no_tokens_and_takes_none() -> None:
    rates = LogRates(2, 1_000)
    assert written(rates, a_record(1_000.0), a_record(500.0), a_record(500.0)) == 2
    assert written(rates, a_record(530.0)) == 1


def test_what_is_kept_is_bounded_however_many_peers_there_are() -> None:
    rates = LogRates(1, 10**6)
    for i in range(log_rates.MAX_KINDS + 500):
        rates.let_through(a_record(100.0, vm=f"ns/{i}"))
        rates.let_through(a_record(100.0, vm=f"ns/{i}"))
    assert len(rates._kinds) == log_rates.MAX_KINDS
    assert sum(getattr(line, "left_out", 0) for line in rates.remaining()) == log_rates.MAX_KINDS + 500
