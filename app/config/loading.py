"""From file and environment to `Settings`: everything that is wrong is told at once."""

from __future__ import annotations

import copy
from collections.abc import Mapping

from pydantic import ValidationError

from app.config.document import parse_document, read_text
from app.config.environment import OVERRIDES, EnvArgs, overrides
from app.config.problems import MAX_PROBLEMS, Location, dotted, leaves, tell_all
from app.config.rules import breaches
from app.config.settings import FileSettings, Settings, Source
from app.errors import ConfigurationError
from app.protocols.printable import printable


def load_settings(path: str | None, environ: Mapping[str, str]) -> Settings:
    """The configuration in force.

    Args:
        path: the file; None takes the one that `CONFIG_PATH` names, and with none of the two all is default.
        environ: the process' environment, whose values (`VMSCALER_REDIS_URL`) go before the file's.

    Raises:
        ConfigurationError: with all problems at once; none of them repeats a value.
    """
    env = EnvArgs.read(environ)
    path = path or env.config_path
    if path is None:
        return build_settings({}, environ, source="configuration")
    return build_settings(parse_document(read_text(path), path), environ, source=printable(path))


def build_settings(
    document: Mapping[str, object], environ: Mapping[str, str], *, source: str = "configuration"
) -> Settings:
    """The configuration of a document that was read already; `source` names it in the error.

    Raises:
        ConfigurationError: as `load_settings`.
    """
    data, replaced = _with_overrides(document, environ)
    env = EnvArgs.read(environ)
    settings, problems, excused = _validate(data)
    problems += [
        f"{dotted(breach.at)}: {breach.problem}"
        for breach in breaches(settings)
        if not any(_is_excused(place, excused) for place in (breach.at, *breach.beside))
    ]
    problems += env.problems(platform=settings.platform.kind, node_bound=settings.platform.node_bound)
    if problems:
        raise ConfigurationError(_bounded([_named(line, replaced) for line in problems]), source=source)
    sections = {name: getattr(settings, name) for name in FileSettings.model_fields}
    return Settings(**sections, env=env, sources=_sources(data, replaced))


def _with_overrides(
    document: Mapping[str, object], environ: Mapping[str, str]
) -> tuple[dict[str, object], dict[str, str]]:
    """The document with the environment's values in it, and those values' variables by path."""
    data = copy.deepcopy(dict(document))
    replaced: dict[str, str] = {}
    names = {field: name for name, field in OVERRIDES.items()}
    for (section, field), value in overrides(environ).items():
        fields = data.setdefault(section, {})
        if isinstance(fields, dict):
            fields[field] = value
            replaced[dotted((section, field))] = names[section, field]
    return data, replaced


def _validate(data: dict[str, object]) -> tuple[FileSettings, list[str], list[Location]]:
    """The settings without what is wrong, what is wrong, and where: rules are checked on the rest."""
    problems: list[str] = []
    excused: list[Location] = []
    data = copy.deepcopy(data)
    while True:
        try:
            settings = FileSettings.model_validate(data, by_alias=True, by_name=False)
        except ValidationError as error:
            details = error.errors(include_url=False)
            if not excused:
                problems = tell_all(details, FileSettings)
            for detail in details:
                location = detail["loc"]
                excused.append(_cut(data, location[:-1] if detail["type"] == "missing" else location))
        else:
            return settings, problems, excused


def _cut(data: dict[str, object], location: Location) -> Location:
    """Take a wrong value out (a list as a whole, so that indices stay true); where it was cut."""
    parent: object = data
    for position, part in enumerate(location[:-1]):
        is_list = isinstance(location[position + 1], int)
        if not isinstance(parent, dict) or part not in parent:
            return location[: position + 1]
        if is_list:
            del parent[part]
            return location[: position + 1]
        parent = parent[part]
    if isinstance(parent, dict):
        parent.pop(location[-1], None)
    return location


def _is_excused(place: Location, excused: list[Location]) -> bool:
    return any(place[: len(cut)] == cut for cut in excused)


def _named(line: str, replaced: Mapping[str, str]) -> str:
    """A problem of a value from the environment also names its variable."""
    variable = replaced.get(line.partition(": ")[0])
    return f"{line} (from {variable})" if variable else line


def _bounded(problems: list[str]) -> list[str]:
    if len(problems) <= MAX_PROBLEMS:
        return problems
    return [*problems[:MAX_PROBLEMS], f"and {len(problems) - MAX_PROBLEMS} more problems"]


def _sources(data: Mapping[str, object], replaced: Mapping[str, str]) -> dict[str, Source]:
    from_file: dict[str, Source] = dict.fromkeys(map(dotted, leaves(data)), "file")
    return from_file | dict.fromkeys(replaced, "environment")
