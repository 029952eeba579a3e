"""Whatever the file holds, it gives settings or a `ConfigurationError`, and never repeats a value."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from app.config import Settings, build_settings
from app.config.document import parse_document
from app.config.settings import FileSettings
from app.config.showing import effective_yaml
from app.errors import ConfigurationError

SECRET = "hunter2secret"

MODEL = json.loads(json.dumps(FileSettings().model_dump(by_alias=True, mode="json")))

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(
        [0, -1, 1.5, "2", "250m", "sim", "neonvm", "http://h", "redis://h/0", 10**400, "\ud800", SECRET]
    )
)
garbage = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """A document with the right names and, mostly, wrong values."""
    document: dict[str, Any] = {}
    for section in draw(st.lists(st.sampled_from(sorted(MODEL)), max_size=4, unique=True)):
        known = sorted(MODEL[section] or ["url", "port", "timeoutSeconds", "maxBatchSize"])
        names = st.sampled_from(known) if known else st.text(max_size=6)
        fields = st.dictionaries(names | st.text(max_size=6), garbage, max_size=4)
        document[section] = draw(fields | garbage)
    return document | draw(st.dictionaries(st.text(max_size=6), garbage, max_size=1))


nodes = st.lists(
    st.dictionaries(st.sampled_from(["name", "cpu", "memory", "reservedCpu", "reservedMemory"]), garbage)
    | garbage,
    max_size=4,
)


def build(document: dict[str, Any]) -> Settings | None:
    """The settings, or None where the document is refused in words that can be shown."""
    try:
        return build_settings(document, {})
    except ConfigurationError as error:
        refused = error
    assert refused.problems
    assert all(line.isprintable() for line in refused.problems)
    assert SECRET not in str(refused)
    return None


@given(documents())
@settings(max_examples=300, deadline=None)
def test_garbage_gives_settings_or_a_configuration_error(document: dict[str, Any]) -> None:
    built = build(document)
    if built is not None:
        assert built.core_config().platform_retry_wait > 0


@given(nodes, garbage)
@settings(max_examples=150, deadline=None)
def test_nodes_are_refused_or_taken_as_many_as_there_are(listed: list[Any], other: Any) -> None:
    built = build({"nodeScheduler": {"nodes": listed, "port": other}})
    if built is not None:
        assert len(built.node_scheduler.nodes) == len(listed)


@given(st.text(max_size=200), st.sampled_from(["c.json", "c.yaml", "c"]))
@settings(max_examples=300, deadline=None)
def test_any_text_is_a_document_or_a_configuration_error(text: str, name: str) -> None:
    try:
        document = parse_document(text, name)
    except ConfigurationError:
        return
    assert isinstance(document, dict)


@given(documents())
@settings(max_examples=100, deadline=None)
def test_what_is_shown_can_be_read_again_and_means_the_same(document: dict[str, Any]) -> None:
    shown = effective_yaml(build(document) or build_settings({}, {}))
    again = effective_yaml(build_settings(parse_document(shown, "c.yaml"), {}))
    assert parse_document(again, "c.yaml") == parse_document(shown, "c.yaml")
