"""What a value of the configuration file may be: durations, ports, fractions, quantities, addresses.

Values are taken strictly: a number in quotes is no number, and a yes is no 1. Durations are seconds and may
be fractional; the least is a millisecond, which is what the decision core counts in.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

LONGEST_SECONDS = 31_622_400
"""A year; beyond it a typing mistake is likelier than a wish."""


class Section(BaseModel):
    """A part of the file: frozen, strict, unknown fields refused; camelCase there, snake_case here."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        validate_default=True,
        arbitrary_types_allowed=True,
        hide_input_in_errors=True,
    )


RESTART, RELOAD = "restart", "SIGHUP"
"""What lets a changed value take effect: a new start, or the signal (`app.config.reloading`)."""


def setting(
    default: Any, effect: str, unit: str = "", *, alias: str | None = None, change: str = RESTART
) -> Any:
    """A field with its default, what it does (for the reference) and its unit.

    `...` as default makes it required; `alias` is its name in the file where that is not plain camelCase.
    With `change=RELOAD` a running process takes the value over; its bootstrap must see to that.
    """
    extra: dict[str, Any] = {"unit": unit, "change": change}
    return Field(default, description=effect, json_schema_extra=extra, alias=alias)


def needs(field: FieldInfo) -> str:
    """What a changed value of a field needs: `RESTART` or `RELOAD`."""
    extra = field.json_schema_extra
    return str(extra.get("change", RESTART)) if isinstance(extra, dict) else RESTART


def wrong(text: str) -> PydanticCustomError:
    """A problem told in our own words; `text` must not hold the value."""
    return PydanticCustomError("wrong", "{text}", {"text": text})


def _check_seconds(value: float) -> float:
    if value == 0:
        raise wrong("must not be zero")
    return _check_limit(value)


def _check_limit(value: float) -> float:
    if value < 0:
        raise wrong("must not be negative")
    if 0 < value < 0.001:
        raise wrong("must be at least 0.001 (a millisecond)")
    if value > LONGEST_SECONDS:
        raise wrong(f"must be at most {LONGEST_SECONDS} (a year)")
    return value


def _check_peer_port(value: int) -> int:
    if value == 0:
        raise wrong("must not be zero")
    return _check_own_port(value)


def _check_own_port(value: int) -> int:
    if not 0 <= value <= 65535:
        raise wrong("must be a port, at most 65535 and not negative")
    return value


def _check_load_target(value: float) -> float:
    if not 0 < value < 2:
        raise wrong("must be above 0 and below 2")
    return value


def _check_memory_target(value: float) -> float:
    if not 0 < value < 1:
        raise wrong("must be above 0 and below 1")
    return value


def _check_text(value: str) -> str:
    if not value:
        raise wrong("must not be empty")
    if len(value) > 253 or not value.isprintable() or value != value.strip():
        raise wrong("must be at most 253 characters, without control characters or spaces around")
    return value


Number = Annotated[float, Field(allow_inf_nan=False)]
Seconds = Annotated[Number, AfterValidator(_check_seconds)]
"""A duration above zero."""
LimitSeconds = Annotated[Number, AfterValidator(_check_limit)]
"""A duration, 0 for none."""
PeerPort = Annotated[int, AfterValidator(_check_peer_port)]
"""A port of another process: never 0."""
OwnPort = Annotated[int, AfterValidator(_check_own_port)]
"""A port that we listen on: 0 for a free one."""
LoadTarget = Annotated[Number, AfterValidator(_check_load_target)]
MemoryTarget = Annotated[Number, AfterValidator(_check_memory_target)]
Text = Annotated[str, AfterValidator(_check_text)]
"""A name, never empty."""
