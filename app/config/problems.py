"""What pydantic finds wrong, told in one line each: `.monitor.serverPort: must not be zero`.

No value is ever repeated: it may be a secret. Names are, escaped and cut, with the nearest known one as a
hint.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from app.config.document import show_key

Location = tuple[str | int, ...]

MAX_PROBLEMS = 100
"""More mistakes than anyone corrects at once; the rest is counted."""

_TYPES = {
    "missing": "is missing",
    "int_type": "must be a whole number",
    "int_parsing_size": "must be a whole number of ordinary size",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "string_type": "must be text",
    "string_unicode": "must be text without broken characters",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "dict_type": "must be an object",
    "tuple_type": "must be a list",
}


def dotted(location: Iterable[str | int]) -> str:
    """A path as it is shown: `.nodeScheduler.nodes[0].cpu`; `.` for the whole."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{show_key(part)}" for part in location)
    return text or "."


def leaves(value: object, location: Location = ()) -> Iterator[Location]:
    """Where the values of a document are; an empty object or list counts as a value."""
    if isinstance(value, dict) and value:
        for key, child in value.items():
            yield from leaves(child, (*location, key))
    elif isinstance(value, list) and value:
        for index, child in enumerate(value):
            yield from leaves(child, (*location, index))
    else:
        yield location


def tell(error: ErrorDetails, root: type[BaseModel]) -> str:
    """One line for one of pydantic's errors."""
    location = error["loc"]
    if error["type"] == "extra_forbidden":
        return f"{dotted(location)}: unknown field{_hint(location, root)}"
    return f"{dotted(location)}: {_sentence(error)}{_found(error)}"


def tell_all(errors: Sequence[ErrorDetails], root: type[BaseModel]) -> list[str]:
    """A line each, in the order of the model, every line once."""
    return list(dict.fromkeys(tell(error, root) for error in errors))


def _sentence(error: ErrorDetails) -> str:
    kind, context = error["type"], error.get("ctx", {})
    match kind:
        case "wrong":
            return error["msg"]
        case "literal_error":
            return f"must be one of {context['expected']}"
        case "greater_than":
            return "must not be zero" if error["input"] == 0 else f"must be above {context['gt']}"
        case "greater_than_equal":
            zero = error["input"] == 0 and context["ge"] == 1
            return "must not be zero" if zero else f"must be at least {context['ge']}"
        case "less_than_equal":
            return f"must be at most {context['le']}"
        case "too_long":
            return f"must have at most {context['max_length']} entries"
        case _:
            return _TYPES.get(kind, "is not valid")


def _found(error: ErrorDetails) -> str:
    """What kind of value stands there instead, for errors of kind; never the value."""
    if not error["type"].endswith("_type") or isinstance(error["input"], float):
        return ""
    return f", not {_kind(error['input'])}"


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case str():
            return "text"
        case int() | float():
            return "a number"
        case list() | tuple():
            return "a list"
        case dict():
            return "an object"
        case _:
            return "a date"


def _hint(location: Location, root: type[BaseModel]) -> str:
    """The nearest name that is known at that place, also if it differs in case or underscores."""
    model = _model_at(root, location[:-1])
    if model is None:
        return ""
    names = [field.alias or name for name, field in model.model_fields.items()]
    plain = {_plain(name): name for name in names}
    near = difflib.get_close_matches(_plain(str(location[-1]))[:80], plain, n=1, cutoff=0.6)
    return f" (did you mean {plain[near[0]]}?)" if near else ""


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def _model_at(root: type[BaseModel], location: Location) -> type[BaseModel] | None:
    """The model that describes the object at a place; None if there is none."""
    model: type[BaseModel] | None = root
    for part in location:
        if isinstance(part, int):
            continue
        fields = model.model_fields.values() if model is not None else ()
        field = next((field for field in fields if field.alias == part), None)
        model = model_in(field.annotation) if field is not None else None
    return model


def model_in(annotation: Any) -> type[BaseModel] | None:
    """The model in an annotation such as `X`, `X | None` or `tuple[X, ...]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inner = (model_in(part) for part in getattr(annotation, "__args__", ()))
    return next((model for model in inner if model is not None), None)
