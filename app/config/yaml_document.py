"""YAML as plain values: what JSON can say, and no more (no tags, no merge keys, each key once).

Depth and number of values are bounded while the text is read, aliases counted each time that they are used,
so that a short text can't grow large. Scalars are YAML 1.1, as PyYAML reads them.
"""

from __future__ import annotations

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from app.protocols.printable import printable

_PLAIN = "tag:yaml.org,2002:"
_SCALARS = frozenset(_PLAIN + kind for kind in ("null", "bool", "int", "float", "str", "timestamp"))


class _BoundedLoader(yaml.SafeLoader):
    """PyYAML's safe loader that stops at a depth and a number of nodes."""

    def __init__(self, text: str, max_depth: int, max_values: int) -> None:
        super().__init__(text)
        self.max_depth = max_depth
        self.max_values = max_values
        self.depth = 0
        self.values = 0

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        """One node and what is in it, if the bounds allow it."""
        self.depth += 1
        if self.depth > self.max_depth:
            raise ValueError(f"nested deeper than {self.max_depth} levels")
        self.count()
        node: Node | None = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def count(self) -> None:
        """One more value."""
        self.values += 1
        if self.values > 2 * self.max_values:
            raise ValueError(f"more than {self.max_values} values")


def parse_yaml(text: str, *, max_depth: int, max_values: int) -> object:
    """The value of the one document in `text`; None for an empty one.

    Raises:
        ValueError: not YAML, or beyond what is said above; the text of the document is not repeated.
    """
    try:
        loader = _BoundedLoader(text, max_depth, max_values)
        node = loader.get_single_node()
        return None if node is None else _build(loader, node, 1)
    except yaml.MarkedYAMLError as error:
        raise ValueError(f"not YAML: {_place(error.problem_mark)}{_problem(error)}") from None
    except yaml.YAMLError:
        raise ValueError("not YAML: a character that YAML does not allow") from None


def yaml_lines(text: str, *, max_depth: int, max_values: int) -> dict[tuple[str | int, ...], int]:
    """The line of each value in a document that `parse_yaml` has read, by its path; the first line is 1.

    A value of an object is said to be where its key is. What an alias repeats is where it is repeated.
    """
    loader = _BoundedLoader(text, max_depth, max_values)
    node = loader.get_single_node()
    lines: dict[tuple[str | int, ...], int] = {}
    waiting: list[tuple[tuple[str | int, ...], Node, int]] = [] if node is None else [((), node, 0)]
    while waiting:
        path, node, line = waiting.pop()
        lines[path] = line + 1
        if isinstance(node, MappingNode):
            waiting += [((*path, key.value), value, key.start_mark.line) for key, value in node.value]
        elif isinstance(node, SequenceNode):
            waiting += [((*path, at), item, item.start_mark.line) for at, item in enumerate(node.value)]
    return lines


def _build(loader: _BoundedLoader, node: Node, depth: int) -> object:
    loader.count()
    if depth > loader.max_depth:
        raise ValueError(f"nested deeper than {loader.max_depth} levels")
    if isinstance(node, MappingNode) and node.tag == _PLAIN + "map":
        return _build_mapping(loader, node, depth)
    if isinstance(node, SequenceNode) and node.tag == _PLAIN + "seq":
        return [_build(loader, item, depth + 1) for item in node.value]
    if isinstance(node, ScalarNode) and node.tag in _SCALARS:
        try:
            return loader.construct_object(node)
        except ValueError:
            raise ValueError(f"not YAML: {_place(node.start_mark)}a number or date that is none") from None
    raise ValueError(f"not YAML that is taken here: {_place(node.start_mark)}a tag")


def _build_mapping(loader: _BoundedLoader, node: MappingNode, depth: int) -> dict[str, object]:
    value: dict[str, object] = {}
    for key_node, value_node in node.value:
        if not isinstance(key_node, ScalarNode) or key_node.tag not in (_PLAIN + "str", _PLAIN + "bool"):
            raise ValueError(
                f"not YAML that is taken here: {_place(key_node.start_mark)}a key that is no text"
            )
        key = key_node.value
        if key in value:
            raise ValueError(f"{_place(key_node.start_mark)}a key that is there twice in one object")
        value[key] = _build(loader, value_node, depth + 1)
    return value


def _place(mark: yaml.Mark | None) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""


def _problem(error: yaml.MarkedYAMLError) -> str:
    """PyYAML's words up to the first quotation, which would be a piece of the text."""
    words = (error.problem or "can't be read").split("'", 1)[0].split('"', 1)[0]
    return printable(words.strip(), 100)
