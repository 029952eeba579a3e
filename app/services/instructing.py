"""Operators' wishes: pause, resume, mode, a size by hand. Written as intents, carried out by the owner.

Nothing here touches a VM's record. A VM's own intent goes before that for all VMs; one that is taken back
stays for a minute with a value that counts as none (`off`, `default`), to tell the owner who did it and why;
a pause that is off also exempts its VM from a pause of all. The owner shows in the
record which intent it has taken up, so a change is taken up when the record shows what now counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from app.core.model import Mode
from app.errors import InvalidInput
from app.ports.runtime import Clock
from app.ports.store import BucketName, Intent, IntentStore, StateStore
from app.ports.vm import VmKey
from app.services.fixed_size import KIND as RESIZE
from app.services.fixed_size import FixedSize
from app.services.vm_record import read_record

EVERY_VM = "*"
"""Target of an intent that is meant for all VMs of its bucket, those to come included."""

TAKE_UP_S = 5.0
"""How long a command waits for the owners; a live one looks at every tick."""

_LOOK_EVERY_S = 0.1
"""Between two looks at the records while waiting."""

_RESUME_STANDS_MS = 60_000
"""How long a resume stands that no pause of all VMs calls for: owners have read it long before."""

NONE_OF = {"pause": "off", "mode": "default", RESIZE: "off"}
"""The value of each kind that says that it was taken back."""


@dataclass(frozen=True, slots=True)
class Author:
    """Who wants something, and why; shown in the audit trail."""

    name: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Instruction:
    """What was written.

    Attributes:
        kind: `pause`, `mode` or `resize`.
        place: bucket of each VM concerned.
        written: the new intents; `lifted` are those that no longer count.
        standing: intents of that kind that now stand in the buckets concerned.
    """

    kind: str
    place: Mapping[VmKey, BucketName]
    written: tuple[Intent, ...]
    lifted: tuple[Intent, ...]
    standing: tuple[Intent, ...]

    def in_force(self, key: VmKey) -> Intent | None:
        """The intent of that kind that now counts for one VM; None: no pause, or the platform's mode."""
        return in_force(self.standing, key, self.kind)


class Instructing:
    """Writes intents and waits for their owners."""

    def __init__(
        self,
        intents: IntentStore,
        states: StateStore,
        clock: Clock,
        new_id: Callable[[], str],
        sleep: Callable[[float], None],
    ) -> None:
        self._intents = intents
        self._states = states
        self._clock = clock
        self._new_id = new_id
        self._sleep = sleep

    def pause(self, key: VmKey, bucket: BucketName, *, for_ms: int | None, author: Author) -> Instruction:
        """Begin no change of size for one VM, for `for_ms` or until taken back."""
        intent = self._intent(str(key), "pause", "on", author, self._end(for_ms))
        self._intents.put(bucket, intent)
        return self._instruction("pause", {key: bucket}, [bucket], written=[intent])

    def pause_all(self, buckets: Sequence[BucketName], *, for_ms: int | None, author: Author) -> Instruction:
        """The same for all VMs, those to come and those resumed one by one included."""
        intent = self._intent(EVERY_VM, "pause", "on", author, self._end(for_ms))
        for bucket in buckets:
            self._intents.put(bucket, intent)
            self._take_back(bucket, [old for old in self._of_kind(bucket, "pause") if old.value == "off"])
        return self._instruction("pause", self._everyone(buckets), buckets, written=[intent])

    def resume(self, key: VmKey, bucket: BucketName, author: Author) -> Instruction:
        """Let one VM be scaled again, also while all others are paused; no-op for one that isn't."""
        standing = self._of_kind(bucket, "pause")
        counted = in_force(standing, key, "pause")
        written: list[Intent] = []
        if counted is not None:
            for_all = [old for old in standing if old.target == EVERY_VM and old.value == "on"]
            until = for_all[0].until_ms if for_all else self._end(_RESUME_STANDS_MS)
            written = [self._intent(str(key), "pause", "off", author, until)]
            self._intents.put(bucket, written[0])
        lifted = [] if counted is None else [counted]
        return self._instruction("pause", {key: bucket}, [bucket], written=written, lifted=lifted)

    def resume_all(self, buckets: Sequence[BucketName], author: Author) -> Instruction:
        """Take every pause back, those of single VMs too."""
        resumed = self._intent(EVERY_VM, "pause", "off", author, self._end(_RESUME_STANDS_MS))
        lifted: list[Intent] = []
        for bucket in buckets:
            standing = self._of_kind(bucket, "pause")
            lifted += [old for old in standing if old.value == "on"]
            self._take_back(bucket, [old for old in standing if old.target != EVERY_VM])
            if standing:
                self._intents.put(bucket, resumed)
        return self._instruction("pause", self._everyone(buckets), buckets, written=[resumed], lifted=lifted)

    def set_mode(self, key: VmKey, bucket: BucketName, mode: Mode, author: Author) -> Instruction:
        """Override the platform's word on whether the VM is scaled or observed, until taken back."""
        intent = self._intent(str(key), "mode", mode.value, author, None)
        self._intents.put(bucket, intent)
        return self._instruction("mode", {key: bucket}, [bucket], written=[intent])

    def clear_mode(self, key: VmKey, bucket: BucketName, author: Author) -> Instruction:
        """Let the platform's mode count again."""
        return self._take_back_own("mode", key, bucket, author)

    def resize(
        self, key: VmKey, bucket: BucketName, size: FixedSize, *, for_ms: int | None, author: Author
    ) -> Instruction:
        """Fix a VM's size, for `for_ms` or until taken back; the caller has checked that it can have it."""
        intent = self._intent(str(key), RESIZE, size.value, author, self._end(for_ms))
        self._intents.put(bucket, intent)
        return self._instruction(RESIZE, {key: bucket}, [bucket], written=[intent])

    def clear_resize(self, key: VmKey, bucket: BucketName, author: Author) -> Instruction:
        """Let a VM be scaled by its load again."""
        return self._take_back_own(RESIZE, key, bucket, author)

    def _take_back_own(self, kind: str, key: VmKey, bucket: BucketName, author: Author) -> Instruction:
        """End a VM's own wish, if it has one."""
        counted = in_force(self._of_kind(bucket, kind), key, kind)
        if counted is None:
            return self._instruction(kind, {key: bucket}, [bucket])
        end = self._intent(str(key), kind, NONE_OF[kind], author, self._end(_RESUME_STANDS_MS))
        self._intents.put(bucket, end)
        return self._instruction(kind, {key: bucket}, [bucket], written=[end], lifted=[counted])

    def wait(self, instruction: Instruction, timeout_s: float = TAKE_UP_S) -> tuple[VmKey, ...]:
        """Wait until the owners have taken it up, `timeout_s` at most; the VMs for which they have not."""
        deadline = self._clock.monotonic() + timeout_s
        while True:
            missing = tuple(self._not_taken_up(instruction))
            if not missing or self._clock.monotonic() >= deadline:
                return missing
            self._sleep(_LOOK_EVERY_S)

    def _not_taken_up(self, instruction: Instruction) -> list[VmKey]:
        by_bucket: dict[BucketName, list[VmKey]] = {}
        for key, bucket in instruction.place.items():
            by_bucket.setdefault(bucket, []).append(key)
        missing: list[VmKey] = []
        for bucket, keys in by_bucket.items():
            # Whole buckets: a single record is also found for a while after its VM is gone.
            records = self._states.load(bucket)
            for key in keys:
                raw = records.get(key)
                if raw is not None and not _has_taken_up(raw, instruction, key):
                    missing.append(key)
        return missing

    def _end(self, for_ms: int | None) -> int | None:
        return None if for_ms is None else self._clock.wall_ms() + for_ms

    def _intent(self, target: str, kind: str, value: str, author: Author, until_ms: int | None) -> Intent:
        return Intent(
            target=target,
            kind=kind,
            value=value,
            until_ms=until_ms,
            reason=author.reason,
            author=author.name,
            at_ms=self._clock.wall_ms(),
            intent_id=self._new_id(),
        )

    def _of_kind(self, bucket: BucketName, kind: str) -> list[Intent]:
        return [intent for intent in self._intents.list(bucket) if intent.kind == kind]

    def _take_back(self, bucket: BucketName, intents: Sequence[Intent]) -> None:
        for intent in intents:
            self._intents.remove(bucket, intent.target, intent.kind)

    def _instruction(
        self,
        kind: str,
        place: Mapping[VmKey, BucketName],
        buckets: Sequence[BucketName],
        *,
        written: Sequence[Intent] = (),
        lifted: Sequence[Intent] = (),
    ) -> Instruction:
        standing = [intent for bucket in buckets for intent in self._of_kind(bucket, kind)]
        return Instruction(
            kind, place, _without_repeats(written), _without_repeats(lifted), _without_repeats(standing)
        )

    def _everyone(self, buckets: Sequence[BucketName]) -> dict[VmKey, BucketName]:
        return {key: bucket for bucket in buckets for key in self._states.load(bucket)}


def in_force(standing: Iterable[Intent], key: VmKey, kind: str) -> Intent | None:
    """The intent of a kind that counts for one VM among those that stand: its own before that for all.

    None where there is none, or the one that goes first says that it was taken back.
    """
    by_target = {intent.target: intent for intent in standing if intent.kind == kind}
    counted = by_target.get(key) or by_target.get(EVERY_VM)
    return None if counted is None or counted.value == NONE_OF.get(kind) else counted


def _without_repeats(intents: Sequence[Intent]) -> tuple[Intent, ...]:
    """An intent for all VMs stands in every bucket; it is one."""
    return tuple({intent.intent_id: intent for intent in intents}.values())


def _has_taken_up(raw: bytes, instruction: Instruction, key: VmKey) -> bool:
    try:
        record = read_record(key, raw)
    except InvalidInput:
        return False
    shown: str | None = getattr(record.intents, instruction.kind)
    counted = instruction.in_force(key)
    return shown == (None if counted is None else counted.intent_id)
