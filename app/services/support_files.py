"""The files of a support bundle: each made for itself, cleaned of secrets, and bounded.

A part that fails is left out; the list of contents says which, and why. So a bundle can be made of a fleet
that is broken, which is when one is wanted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from app.errors import VmscalerError
from app.services.redaction import Redaction

MAX_FILE_CHARS = 256 << 20
"""Of one file; what is longer is cut, and the list of contents says so."""

CONTENTS = "CONTENTS.json"
"""The list of contents."""

Part = Callable[[], Mapping[str, str]]
"""Makes some files: texts by name."""


@dataclass(frozen=True, slots=True)
class SupportFiles:
    """What goes into the archive, its list of contents included, and why parts are missing."""

    files: dict[str, bytes]
    missing: dict[str, str]


def make_files(parts: Mapping[str, Part], redaction: Redaction, head: Mapping[str, object]) -> SupportFiles:
    """Make all parts, one after the other.

    Args:
        parts: by what they are called where they fail.
        head: more for the list of contents.
    """
    files: dict[str, bytes] = {}
    missing: dict[str, str] = {}
    for name, make in parts.items():
        try:
            made = make()
        except VmscalerError as err:
            missing[name] = redaction.clean(str(err))
            continue
        except Exception as err:  # noqa: BLE001 a bug in one part must not cost the others
            missing[name] = redaction.clean(f"a bug: {type(err).__name__}: {err}")
            continue
        for path, text in made.items():
            if len(text) > MAX_FILE_CHARS:
                missing[path] = f"cut at {MAX_FILE_CHARS} of {len(text)} characters"
            files[path] = redaction.clean(text[:MAX_FILE_CHARS]).encode("utf-8", "replace")
    listed = {
        **head,
        "files": {path: len(content) for path, content in files.items()},
        "missing": missing,
        "note": "Passwords and tokens are shown as ***. Names, addresses and sizes of VMs are as they are.",
    }
    files[CONTENTS] = redaction.clean(json.dumps(listed, indent=2)).encode()
    return SupportFiles(files, missing)
