"""What of a changed configuration a running process takes over: values whose setting says so, no others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from app.config.fields import RELOAD, Section, needs
from app.config.problems import Location, dotted
from app.config.settings import FileSettings, Settings, Source


@dataclass(frozen=True, slots=True)
class Reloaded:
    """The outcome; paths only, since values may be secret.

    Attributes:
        settings: in force from now on: the newer values of `taken`, the older ones of everything else.
        taken: what has changed and is taken over, such as `.logging.level`.
        left: what has changed and needs a restart.
    """

    settings: Settings
    taken: tuple[str, ...]
    left: tuple[str, ...]


def take_over(current: Settings, newer: Settings) -> Reloaded:
    """Bring what may be taken over from `newer` into `current`; both were checked as a whole."""
    changes = list(_changes(current, newer, ()))
    taken = tuple(dotted(place) for place, is_taken in changes if is_taken)
    left = tuple(dotted(place) for place, is_taken in changes if not is_taken)
    sections = {
        name: _merged(getattr(current, name), getattr(newer, name)) for name in FileSettings.model_fields
    }
    sources = _sources(current, newer, taken)
    return Reloaded(current.model_copy(update={**sections, "sources": sources}), taken, left)


def _changes(old: Section, new: Section, place: Location) -> Iterator[tuple[Location, bool]]:
    """The settings that differ, and whether each is taken over."""
    for name, field in _own_fields(old):
        before, after = getattr(old, name), getattr(new, name)
        here = (*place, field.alias or name)
        if isinstance(before, Section) and isinstance(after, Section):
            yield from _changes(before, after, here)
        elif before != after:
            yield here, needs(field) == RELOAD


def _merged(old: Any, new: Any) -> Any:
    """A section with the newer values of those settings that are taken over."""
    if not isinstance(old, Section) or not isinstance(new, Section):
        return old
    update = {}
    for name, field in _own_fields(old):
        before, after = getattr(old, name), getattr(new, name)
        is_taken = needs(field) == RELOAD
        update[name] = after if is_taken else _merged(before, after)
    return old.model_copy(update=update)


def _own_fields(section: Section) -> Iterable[tuple[str, Any]]:
    model = FileSettings if isinstance(section, Settings) else type(section)
    return model.model_fields.items()


def _sources(current: Settings, newer: Settings, taken: tuple[str, ...]) -> Mapping[str, Source]:
    """Where each value in force comes from."""

    def is_taken(path: str) -> bool:
        return any(path == one or path.startswith((f"{one}.", f"{one}[")) for one in taken)

    kept = {path: source for path, source in current.sources.items() if not is_taken(path)}
    return kept | {path: source for path, source in newer.sources.items() if is_taken(path)}
