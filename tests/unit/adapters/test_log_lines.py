from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator

import pytest

from app.adapters.log_lines import JsonLines, LogLines, configure_logging
from app.config.logging_section import LoggingSettings
from app.ports.log_context import log_context, log_facts


def line(name: str, message: str, **facts: object) -> str:
    record = logging.makeLogRecord({"name": name, "msg": message, "levelname": "WARNING", **facts})
    return LogLines().format(record).partition(" WARNING ")[2]


def test_the_facts_follow_the_sentence() -> None:
    text = line("app.services.inventory", "inventory not readable", vm="ns/db", reason="no connection")
    assert text == 'app.services.inventory: inventory not readable vm=ns/db reason="no connection"'


def test_a_peers_words_cannot_make_a_line_of_their_own_or_act_on_a_terminal() -> None:
    text = line("app.x", "denied", status="a\nERROR app.x: forged\x1b[2J" + "y" * 10_000)
    assert "\n" not in text
    assert "\x1b" not in text
    assert len(text) < 300


def test_a_librarys_record_is_left_as_it_is() -> None:
    assert (
        line("celery.worker", "mingle: all alone", data={"password": "x"})
        == "celery.worker: mingle: all alone"
    )


def json_line(name: str, message: str, **facts: object) -> dict[str, object]:
    record = logging.makeLogRecord(
        {"name": name, "msg": message, "levelname": "WARNING", "created": 1_700_049_600.25, **facts}
    )
    text = JsonLines().format(record)
    assert "\n" not in text
    shape = json.loads(text)
    assert isinstance(shape, dict)
    return shape


def test_a_json_line_is_an_object_with_time_level_logger_event_and_the_facts() -> None:
    shape = json_line("app.services.inventory", "inventory not readable", vm="ns/db", failures=3, late=None)
    del shape["pid"]
    assert shape == {
        "time": "2023-11-15T12:00:00.250Z",
        "level": "warning",
        "logger": "app.services.inventory",
        "event": "inventory not readable",
        "vm": "ns/db",
        "failures": 3,
        "late": None,
    }


def test_a_fact_cannot_take_the_place_of_a_key_of_every_line() -> None:
    shape = json_line("app.x", "denied", event="forged", level=7)
    assert (shape["event"], shape["event_"], shape["level"], shape["level_"]) == (
        "denied",
        "forged",
        "warning",
        7,
    )


def test_a_peers_words_are_escaped_and_cut_in_json_too() -> None:
    shape = json_line("app.x", "denied", status="a\nb\x1b[2J" + "y" * 10_000)
    assert "\x1b" not in str(shape["status"])
    assert len(str(shape["status"])) == 200


def test_a_trace_is_one_field_of_a_bounded_line() -> None:
    try:
        raise ValueError("x" * 100_000)
    except ValueError:
        shape = json_line("app.x", "failed", exc_info=sys.exc_info())
    error = str(shape["error"])
    assert error.startswith("Traceback")
    assert len(error) < 17_000


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no answer from redis://user:s3cret-pw@host:6379/0", "redis://user:***@host:6379/0"),
        ("rediss://:s3cret-pw@host:6379", "rediss://:***@host:6379"),
        ("sent Authorization: Bearer s3cret-pw.abc=", "Authorization: Bearer ***"),
        ("sent authorization: basic czNjcmV0LXB3", "basic ***"),
    ],
)
def test_a_secret_in_an_address_or_a_header_is_blotted_out(text: str, shown: str) -> None:
    try:
        raise ValueError(text)
    except ValueError:
        error = sys.exc_info()
    for formatter in (LogLines(), JsonLines()):
        for facts in ({"msg": text}, {"msg": "failed", "reason": text}, {"msg": "failed", "exc_info": error}):
            line = formatter.format(logging.makeLogRecord({"name": "app.x", "levelname": "ERROR", **facts}))
            assert shown in line
            assert "s3cret" not in line
            assert "czNj" not in line


def test_what_is_bound_is_on_every_line_until_it_is_cleared() -> None:
    with log_context(task="vmscaler.upscale", vm="ns/db"):
        with log_context(vm="ns/web"):
            assert line("app.x", "denied") == "app.x: denied task=vmscaler.upscale vm=ns/web"
        assert json_line("kombu", "slow")["vm"] == "ns/db"
        assert line("app.x", "denied", vm="ns/own") == "app.x: denied vm=ns/own task=vmscaler.upscale"
    assert line("app.x", "denied") == "app.x: denied"


def test_what_is_bound_is_cleared_when_the_work_fails() -> None:
    with pytest.raises(ValueError, match="broken"), log_context(vm="ns/db"):
        raise ValueError("broken")
    assert log_facts() == {}


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield root
    root.handlers[:] = []
    configure_logging(level)
    root.handlers[:] = handlers


def test_levels_are_changed_while_the_process_runs_and_given_back(root_logger: logging.Logger) -> None:
    configure_logging(
        logging.WARNING, LoggingSettings(levels={"app.services.scaling": "debug", "kombu": "info"})
    )
    assert root_logger.level == logging.WARNING
    assert logging.getLogger("app.services.scaling").isEnabledFor(logging.DEBUG)
    assert logging.getLogger("kombu").level == logging.INFO
    configure_logging(logging.WARNING, LoggingSettings(level="info"), {"noisy": logging.ERROR})
    assert root_logger.level == logging.INFO
    assert not logging.getLogger("app.services.scaling").isEnabledFor(logging.DEBUG)
    assert logging.getLogger("kombu").level == logging.WARNING
    assert logging.getLogger("noisy").level == logging.ERROR
    configure_logging(logging.WARNING)
    assert logging.getLogger("noisy").level == logging.NOTSET


def test_the_handler_writes_in_the_asked_format_within_the_rates(
    root_logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging(logging.INFO, LoggingSettings(format="json", lines_per_minute=2))
    for _ in range(10):
        logging.getLogger("app.x").info("denied", extra={"vm": "ns/db"})
    configure_logging(logging.INFO)
    lines = [json.loads(text) for text in capsys.readouterr().err.splitlines()]
    assert [shape["event"] for shape in lines] == ["denied", "denied", "lines left out"]
    assert (lines[-1]["left_out"], lines[-1]["about"]) == (8, "ns/db")
