"""The Prometheus text format, version 0.0.4, as our own pages write it."""

from __future__ import annotations

from collections.abc import Iterable

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

MAX_LABEL = 253
"""Characters of a label's value; a name of Kubernetes is no longer."""


def escaped(value: str) -> str:
    """A label's value as it stands between quotes; one that is too long is cut."""
    return value[:MAX_LABEL].replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def labels_text(pairs: Iterable[tuple[str, str]]) -> str:
    """Labels as they stand behind a name, "" for none."""
    text = ",".join(f'{name}="{escaped(value)}"' for name, value in pairs)
    return f"{{{text}}}" if text else ""


def head_text(name: str, kind: str, text: str) -> str:
    """The two lines that begin a family; the text is one line."""
    told = text.replace("\\", r"\\").replace("\n", " ")
    return f"# HELP {name} {told}\n# TYPE {name} {kind}\n"


def number_text(value: float) -> str:
    """A sample's value: whole numbers without a fraction, as long as they are exact."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(float(value))
