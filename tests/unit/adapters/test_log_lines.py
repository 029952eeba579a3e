from __future__ import annotations

import logging

from app.adapters.log_lines import LogLines


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
