"""Event scripts out of a stream of lines, plain or gzip, in bounded memory.

Nothing here opens a file. Every mistake is told as `name:line`.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterator
from typing import BinaryIO, NoReturn

from app.errors import InvalidInput
from app.services.event_script import Script, read_script

MAX_LINE_BYTES = 16 * 2**20
"""Longest line that is read, in bytes; ours: a thousand times the longest recorded one."""

_GZIP_MAGIC = b"\x1f\x8b"


def read_scripts(stream: io.BufferedReader, name: str) -> Iterator[tuple[int, Script]]:
    """The scripts of a stream with the numbers of their lines, one after the other; empty lines are skipped.

    Whether it is gzip shows in its first bytes, whatever it is called.

    Raises:
        InvalidInput: at the first line that is no script or can't be read; `where` is `name:line`.
    """
    for number, line in _lines(stream, name):
        if line.strip():
            yield number, _parse(line, f"{name}:{number}")


def _lines(stream: io.BufferedReader, name: str) -> Iterator[tuple[int, bytes]]:
    number = 0
    plain: BinaryIO | None = None
    while True:
        number += 1
        try:
            if plain is None:
                plain = _unpacked(stream)
            line = plain.readline(MAX_LINE_BYTES + 1)
        except (OSError, EOFError, zlib.error) as err:
            raise InvalidInput(f"{name}:{number}", f"can't be read: {err}") from err
        if not line:
            return
        if len(line) > MAX_LINE_BYTES:
            raise InvalidInput(f"{name}:{number}", f"is longer than {MAX_LINE_BYTES} bytes")
        yield number, line


def _unpacked(stream: io.BufferedReader) -> BinaryIO:
    if stream.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC):
        return gzip.open(stream, "rb")  # type: ignore[return-value]
    return stream


def _parse(line: bytes, where: str) -> Script:
    try:
        value = json.loads(line.decode("utf-8"), parse_constant=_refuse_constant)
    except RecursionError as err:
        raise InvalidInput(where, "is nested too deeply") from err
    except ValueError as err:
        raise InvalidInput(where, f"is not JSON: {err}") from err
    try:
        return read_script(value)
    except InvalidInput as err:
        raise InvalidInput(where, str(err)) from err


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON number")
