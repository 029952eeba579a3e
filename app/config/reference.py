"""The reference of all settings, written from the models themselves (`docs/configuration.md`)."""

from __future__ import annotations

import json
from collections.abc import Iterator

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from app.config.environment import OVERRIDES
from app.config.fields import needs
from app.config.problems import model_in
from app.config.settings import FileSettings
from app.config.showing import plain

_INTRODUCTION = """\
# Configuration

<!-- Written by `vmscaler config reference`; change the models in app/config, not this page. -->

One file, JSON or YAML, named by `--config` or `CONFIG_PATH`; without one all values are the defaults. It is
checked as a whole: `vmscaler config check FILE` lists every mistake with its path. Unknown fields, keys that
are there twice and values of a wrong type are mistakes. `vmscaler config show` prints the values in force,
each with its source (default, file, environment) and secrets as `***`.

Each process reads it as it starts, and once more on SIGHUP (workers, beat, the built-in scheduler). What a
running process takes over then has **SIGHUP** in the last column: settings of `logging` in all of these, the
others in workers, whom alone they concern. All else takes effect with a **restart**; the log names what has
changed and needs one. A file with a mistake changes nothing: the values in force stay, and one line in the
log says what is wrong.

The file has at most 1 MiB, 20 levels and 50,000 values. YAML is taken as far as JSON can say the same: no
tags, no merge keys. Durations are seconds and may be fractions. Ports of others may not be 0; ours may: a
free one is taken then.
"""

_RULES = """\
## Rules between values

- `ownership.renewEverySeconds` < `ownership.giveUpAfterSeconds` < `ownership.leaseDurationSeconds`.
- `redis.passwordFile` and a password in `redis.url` exclude each other.
- `redis.masterName` goes with `sentinel://` and `sentinels://`, and must be set then;
  `sentinelPasswordFile` is for these only. The files of TLS are for `rediss://` and `sentinels://`; a
  certificate needs its key.
- `platform.nodeBound` is for platform neonvm; `observeLabel` and `enabledLabel` differ.
- Names of nodes differ; what a node reserves is below what it has.
- `billing.accumulateEverySeconds` is not below `billing.collectEverySeconds`; the two metric names differ.
- `metering.s3` and `metering.file` need the section `billing`.
- Names of `scalingEvents.webhooks` differ, and are not `http`, `s3` or `file`.
- A server's `tlsKeyFile` needs its `tlsCertFile`; Flower's two files need each other.
- `flower.host` beyond loopback needs `flower.authFile`.
- `recording.vms` needs `recording.directory`.
- `dumpState.port` and `web.port` differ, unless they are 0.
"""

_ENVIRONMENT = """\
## Environment

An empty variable counts as missing.

| variable | effect |
|---|---|
| `CONFIG_PATH` | the configuration file, where `--config` names none |
| `K8S_NODE_NAME` | the node of this process; must be set when `platform.nodeBound` is on |
| `K8S_POD_IP` | where others reach this process; must be set with platform neonvm |
"""


def reference_page() -> str:
    """The whole page, Markdown."""
    sections = "\n".join(_section(field) for field in FileSettings.model_fields.values())
    overrides = "".join(
        f"| `{name}` | stands in for `{section}.{field}` |\n" for name, (section, field) in OVERRIDES.items()
    )
    return f"{_INTRODUCTION}\n{sections}\n{_RULES}\n{_ENVIRONMENT}{overrides}"


def _section(field: FieldInfo) -> str:
    model = model_in(field.annotation)
    if model is None:
        raise AssertionError("every field of the file is a section")
    optional = "\n\nOptional." if field.default is None else ""
    rows = "".join(_rows(model, ""))
    head = "\n| name | default | unit | effect | a change needs |\n|---|---|---|---|---|\n"
    table = head + rows if rows else ""
    return f"## {field.alias}\n\n{(model.__doc__ or '').strip()}{optional}\n{table}"


def _rows(model: type[BaseModel], prefix: str) -> Iterator[str]:
    for field in model.model_fields.values():
        name = f"{prefix}{field.alias}"
        inner = model_in(field.annotation)
        if inner is not None and isinstance(field.default, BaseModel):
            yield from _rows(inner, f"{name}.")
            continue
        extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
        facts = (f"`{name}`", _default(field), extra.get("unit", ""), field.description, needs(field))
        yield f"| {' | '.join(map(str, facts))} |\n"
        if inner is not None:
            # One that may be left out, or a list of them.
            yield from _rows(inner, f"{name}." if field.default is None else f"{name}[].")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    return "none" if field.default is None else f"`{json.dumps(plain(field.default))}`"
