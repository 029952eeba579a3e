"""JSON Patch (RFC 6902) as the API server double carries it out."""

from __future__ import annotations

import copy
import json
from typing import Any

from tests.fakes.kube_resources import ApiError

Json = dict[str, Any]

_FAILED = "the server rejected our request due to an error in our request"


def apply_patch(item: Json, operations: Any) -> Json:
    """`test`, `replace`, `add` and `remove` on objects; one that fails changes nothing."""
    if not isinstance(operations, list):
        raise ApiError(400, "BadRequest", "a JSON Patch is a list of operations")
    found = copy.deepcopy(item)
    for operation in operations:
        *way, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        inner = found
        for part in way:
            if not isinstance(inner, dict) or part not in inner:
                raise refused()
            inner = inner[part]
        if not isinstance(inner, dict):
            raise refused()
        match operation["op"]:
            case "test":
                # JSON equality: 1, "1" and true are three values; what is not there is null.
                if json.dumps(inner.get(last)) != json.dumps(operation["value"]):
                    raise refused()
            case "add" | "replace":
                # Other than the RFC says, a replacement needs nothing to replace.
                inner[last] = operation["value"]
            case "remove" if last in inner:
                del inner[last]
            case _:
                raise refused()
    return found


def refused() -> ApiError:
    """A `test` that failed, or a path that is not there: told apart by nothing."""
    return ApiError(422, "Invalid", _FAILED)
