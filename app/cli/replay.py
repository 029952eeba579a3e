"""`vmscaler replay`: run recorded event scripts through the decision core, with no fleet and no Redis.

Exit status: 0; 1 if a step differs with `--check`; 2 if a file can't be read.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import click

from app.errors import InvalidInput
from app.protocols.printable import printable
from app.services.event_script import Script
from app.services.replay import differences, run_script, script_json
from app.services.script_source import read_scripts


@dataclass(slots=True)
class _Tally:
    """What a check has seen so far; `differing` counts steps."""

    scripts: int = 0
    steps: int = 0
    differing: int = 0


@click.command("replay")
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@click.option("--check", is_flag=True, help="Compare with what is expected; print the differences only.")
def replay_command(files: tuple[str, ...], check: bool) -> None:
    """Run event scripts and print what the core decides at each step.

    FILE holds one script a line, plain or gzip; - is standard input. The answer is one JSON object a script:
    id and steps, each with actions, desired, error and reasons. With --check the last line is
    "N scripts, M steps, K differ", where K counts steps.

    Exit status: 0 fine, 1 a step differs, 2 a file can't be read (file:line).
    """
    tally = _Tally()
    are_readable = [_replay_file(name, tally if check else None) for name in files]
    if check:
        click.echo(f"{tally.scripts} scripts, {tally.steps} steps, {tally.differing} differ")
    if not all(are_readable):
        sys.exit(2)
    sys.exit(1 if tally.differing else 0)


def _replay_file(name: str, tally: _Tally | None) -> bool:
    """Replay one file, checked if there is a tally; whether it could be read to its end."""
    shown = printable("<stdin>" if name == "-" else name)
    try:
        with _opened(name) as stream:
            for number, script in read_scripts(stream, shown):
                if tally is None:
                    click.echo(json.dumps(script_json(script), separators=(",", ":")))
                else:
                    _check(script, f"{shown}:{number}", tally)
    except InvalidInput as err:
        click.echo(f"vmscaler replay: {err.where}: {printable(err.problem)}", err=True)
        return False
    return True


@contextmanager
def _opened(name: str) -> Iterator[io.BufferedReader]:
    if name == "-":
        yield io.BufferedReader(cast(io.RawIOBase, sys.stdin.buffer))
        return
    try:
        stream = open(name, "rb")  # noqa: SIM115
    except (OSError, ValueError) as err:
        reason = err.strerror if isinstance(err, OSError) and err.strerror else str(err)
        raise InvalidInput(f"{printable(name)}:1", f"can't be read: {reason}") from err
    with stream:
        yield stream


def _check(script: Script, where: str, tally: _Tally) -> None:
    tally.scripts += 1
    for index, answer in enumerate(run_script(script)):
        tally.steps += 1
        lines = differences(answer)
        tally.differing += bool(lines)
        for line in lines:
            shown_id = printable(script.script_id)
            click.echo(f"{where}: {shown_id} step {index} ({answer.step.op}): {line}")
