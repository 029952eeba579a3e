"""The secrets that a configuration leads to: to find them in texts, and take them out there.

Found by walking all settings, so that a new section is covered: passwords in addresses, whatever is in files
named by a setting that ends in `File`, and variables of the environment whose names say so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote

from pydantic import BaseModel

from app.config.secret_url import SecretUrl
from app.config.settings import Settings

MAX_FILE_BYTES = 256 * 1024
"""Of a file with secrets; a longer one is none of ours."""

SHORTEST_PATH_SECRET = 16
"""Characters of a part of a web address' path or query from which on it may be a secret: chat webhooks."""

_SECRET_NAME = re.compile(r"SECRET|PASSWORD|PASSWD|TOKEN|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|CREDENTIAL")
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----(.*?)-----END", re.DOTALL)


def known_secrets(settings: Settings, environ: Mapping[str, str]) -> set[str]:
    """All secrets that can be read now; files that can't be read hold none that we could tell."""
    found: set[str] = set()
    for name in type(settings).model_fields:
        # Where values come from: paths with words such as `tokenFile`, none of them secret.
        if name != "sources":
            found |= set(_of_value(name, getattr(settings, name)))
    for name, value in environ.items():
        if _SECRET_NAME.search(name.upper()):
            found.add(value)
            if name.upper().endswith("_FILE"):
                found |= set(_of_file(value))
        found |= set(_of_address(value))
    return {secret for secret in found if secret.strip()}


def _of_section(section: BaseModel) -> Iterator[str]:
    for name in type(section).model_fields:
        yield from _of_value(name, getattr(section, name))


def _of_value(name: str, value: object) -> Iterator[str]:
    if isinstance(value, BaseModel):
        yield from _of_section(value)
    elif isinstance(value, SecretUrl):
        yield from _of_url(value)
    elif isinstance(value, str) and name.endswith("_file"):
        yield from _of_file(value)
    elif isinstance(value, str) and _SECRET_NAME.search(name.upper()):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _of_value(name, each)
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _of_value(str(key), each)


def _of_url(url: SecretUrl) -> Iterator[str]:
    parts = url.parts
    for text in (parts.password, None if parts.password else parts.username):
        if text:
            yield text
            yield unquote(text)
    if parts.scheme in ("http", "https"):
        values = [pair.partition("=")[2] for pair in parts.query.split("&")]
        for part in (*parts.path.split("/"), *values):
            if len(part) >= SHORTEST_PATH_SECRET:
                yield part
                yield unquote(part)


def _of_address(text: str) -> Iterator[str]:
    """The password of a variable such as `VMSCALER_REDIS_URL`."""
    found = re.match(r"[a-z][a-z0-9+.-]*://([^/\s]*)@", text)
    if found:
        password = found[1].partition(":")[2] or found[1]
        yield password
        yield unquote(password)


def _of_file(path: str) -> Iterator[str]:
    """What is secret in a file: of one in PEM the private keys, of any other all of it, and each line.

    Of a line such as `user:hash` also what stands behind the colon.
    """
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError):
        return
    text = content.decode(errors="replace")
    if len(content) > MAX_FILE_BYTES:
        return
    if "-----BEGIN " in text:
        for block in _PRIVATE_KEY.findall(text):
            yield from (line.strip() for line in block.splitlines())
        return
    yield text.strip()
    for line in text.splitlines():
        yield line.strip()
        yield line.partition(":")[2].strip()
