"""The record that a VM's owner keeps in Redis, and its audit entries, read back for showing.

Fields that this version doesn't know are left alone. Every text is escaped and cut as it is read, since parts
of it come from peers: nothing built from a record can act on a terminal. Sizes are milli-vCPU and slots,
times Unix milliseconds.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, JsonValue, ValidationError

from app.core.model import Millis, Mode
from app.core.resources import Resources, resources
from app.errors import InvalidInput, NewerVersion
from app.ports.vm import VmKey
from app.protocols.printable import printable
from app.services.record_version import is_of_newer_version

ShownText = Annotated[str, AfterValidator(printable)]
"""Text that is safe to show."""


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Size(_Facts):
    """An amount as the record spells it: `cpu_m` milli-vCPU, `mem` slots."""

    cpu_m: int
    mem: int

    def amount(self) -> Resources:
        """The same for the core."""
        return resources(self.cpu_m, self.mem)


class PlatformFacts(_Facts):
    """The VM as its platform described it last; `use` is the size last asked for, `observed` the real one."""

    use: Size
    observed: Size | None = None
    min: Size
    max: Size
    slot_bytes: int
    mode: Mode = Mode.SCALE
    monitor: ShownText = "required"
    migrating: bool = False
    endpoint_id: ShownText | None = None


class Pause(_Facts):
    """A pause in force; `until_ms` None: until it is taken back."""

    until_ms: int | None = None
    reason: ShownText = ""
    author: ShownText = ""
    since_ms: int | None = None


class Fixed(_Facts):
    """A size that an operator has fixed; a field that is None goes on being scaled. Ends as a pause does."""

    cpu_m: int | None = None
    mem_bytes: int | None = None
    until_ms: int | None = None
    reason: ShownText = ""
    author: ShownText = ""
    since_ms: int | None = None


class Sample(_Facts):
    """The metrics sample in use: when it was taken, when the last poll was, why that gave none."""

    at_ms: int | None = None
    tried_ms: int | None = None
    error: ShownText | None = None
    failures: int = 0


class Decision(_Facts):
    """What the core said last."""

    at_ms: int
    desired: Size | None = None
    actions: dict[str, JsonValue] = {}
    reasons: tuple[ShownText, ...] = ()


class Operation(_Facts):
    """A resize under way; `state` is `resizing`, or `not applied` when the platform has not kept its word."""

    kind: ShownText
    from_size: Size
    to_size: Size
    since_ms: int
    state: ShownText

    model_config = ConfigDict(alias_generator=lambda name: name.removesuffix("_size"))


class Failing(_Facts):
    """Resizes that have failed one after the other, without one that was observed between them."""

    since_ms: int
    times: int
    why: ShownText = ""


class LastStep(_Facts):
    """The last thing that happened to the size, or was refused."""

    at_ms: int
    kind: ShownText
    from_size: Size | None = None
    to_size: Size | None = None
    why: ShownText = ""

    model_config = ConfigDict(alias_generator=lambda name: name.removesuffix("_size"))


class Intents(_Facts):
    """The ids of the operators' intents that the owner has taken up."""

    pause: str | None = None
    mode: str | None = None
    resize: str | None = None


class VmRecord(_Facts):
    """A whole record; see the parts. `mode_by`: `platform`, or the operator who overrode it."""

    v: Literal[1]
    key: str
    uid: ShownText = ""
    bucket: ShownText
    worker: ShownText
    node: ShownText = ""
    snapshot: dict[str, JsonValue]
    core_now_ms: int
    platform: PlatformFacts
    mode: Mode
    mode_by: ShownText = "platform"
    mode_reason: ShownText = ""
    pause: Pause | None = None
    fixed: Fixed | None = None
    status: ShownText = "ok"
    status_reason: ShownText = ""
    sample: Sample = Sample()
    decision: Decision
    operation: Operation | None = None
    failing: Failing | None = None
    last: LastStep | None = None
    intents: Intents = Intents()
    counters: dict[ShownText, int] = {}

    def pause_at(self, now: Millis) -> Pause | None:
        """The pause in force at `now`; None once its time is over."""
        pause = self.pause
        if pause is None or (pause.until_ms is not None and pause.until_ms <= now):
            return None
        return pause

    def fixed_at(self, now: Millis) -> Fixed | None:
        """The size fixed by hand that stands at `now`; None once its time is over."""
        fixed = self.fixed
        if fixed is None or (fixed.until_ms is not None and fixed.until_ms <= now):
            return None
        return fixed


class AuditEntry(_Facts):
    """One entry of a VM's audit trail; when it happened is beside it."""

    kind: ShownText
    from_size: Size | None = None
    to_size: Size | None = None
    why: ShownText = ""
    who: ShownText = ""
    outcome: ShownText | None = None

    model_config = ConfigDict(alias_generator=lambda name: name.removesuffix("_size"))


def read_record(key: VmKey, raw: bytes) -> VmRecord:
    """The record of `key`.

    Raises:
        NewerVersion: a later version of this program wrote it.
        InvalidInput: not a record of this version, or of another VM; the text names the first thing wrong.
    """
    try:
        record = VmRecord.model_validate_json(raw)
    except ValidationError as error:
        if is_of_newer_version(raw):
            what = "is of a newer vmscaler than this one, which reads and writes nothing of it: upgrade"
            raise NewerVersion(f"record of {printable(key)}", what) from error
        raise InvalidInput(f"record of {printable(key)}", _first_problem(error)) from error
    if record.key != key:
        raise InvalidInput(f"record of {printable(key)}", f"it says that it is of {printable(record.key)}")
    return record


def read_audit_entry(raw: bytes) -> AuditEntry:
    """An entry of the audit trail.

    Raises:
        InvalidInput: not an entry.
    """
    try:
        return AuditEntry.model_validate_json(raw)
    except ValidationError as error:
        raise InvalidInput("audit entry", _first_problem(error)) from error


def _first_problem(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    path = ".".join(str(part) for part in first["loc"])
    return printable(f"{path}: {first['msg']}" if path else first["msg"])
