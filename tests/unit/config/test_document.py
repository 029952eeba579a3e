"""Reading the file: JSON and YAML, with bounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.config.document import MAX_FILE_BYTES, parse_document, read_text
from app.errors import ConfigurationError

BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{', '.join(['*' + before] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


def problem_of(text: str, name: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        parse_document(text, name)
    (problem,) = caught.value.problems
    return problem


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('{"a": {"b": [1, 2.5, null, true, "x"]}}', "c.json"),
        ('{"a": {"b": [1, 2.5, null, true, "x"]}}', "config"),
        ('{"a": {"b": [1, 2.5, null, true, "x"]}}', "c.yaml"),
        ("a:\n  b: [1, 2.5, null, true, x]\n", "config"),
        ("{a: {b: [1, 2.5, ~, true, x]}}", "c.yml"),
        ("x: &x [1, 2.5, null, true, x]\na: {b: *x}", "c.yml"),
    ],
)
def test_json_and_yaml_give_the_same_values(text: str, name: str) -> None:
    assert parse_document(text, name)["a"] == {"b": [1, 2.5, None, True, "x"]}


@pytest.mark.parametrize(
    ("text", "name", "problem"),
    [
        ('{"a": 1, "a": 2}', "c.json", "the key a is there twice in one object"),
        ("a: 1\na: 2\n", "c.yaml", "line 2, column 1: a key that is there twice in one object"),
        ('{"a": NaN}', "c.json", "not JSON: NaN is no number"),
        ('{"a": ', "c.json", "not JSON: line 1, column 7: Expecting value"),
        ("[1]", "c.json", ".: must be an object"),
        ("", "c.yaml", "the file is empty"),
        ("# nothing\n", "c.yaml", "the file is empty"),
        ("a: !!python/object:os.system x", "c.yaml", "not YAML that is taken here: line 1, column 4: a tag"),
        ("a: {<<: {b: 1}}", "c.yaml", "not YAML that is taken here: line 1, column 5: a key that is no text"),
        ("1: 2", "c.yaml", "not YAML that is taken here: line 1, column 1: a key that is no text"),
        ("a: 2024-13-45", "c.yaml", "not YAML: line 1, column 4: a number or date that is none"),
        ("a: 1\n---\nb: 2\n", "c.yaml", "not YAML: line 2, column 1: but found another document"),
        ("a: \x00", "c.yaml", "not YAML: a character that YAML does not allow"),
        ("a: *s3cret", "c.yaml", "not YAML: line 1, column 4: found undefined alias"),
        ("[" * 30 + "]" * 30, "c.json", "nested deeper than 20 levels"),
        ("[" * 100_000, "c.json", "nested deeper than 20 levels"),
        ("a: " + "[" * 30 + "]" * 30, "c.yaml", "nested deeper than 20 levels"),
        ("a: " + "[" * 100_000, "c.yaml", "nested deeper than 20 levels"),
        ("a: &a [*a]", "c.yaml", "nested deeper than 20 levels"),
        ('{"a": [' + "1," * 60_000 + "1]}", "c.json", "more than 50000 values"),
        (BOMB, "c.yaml", "more than 50000 values"),
    ],
)
def test_what_is_no_configuration_is_refused(text: str, name: str, problem: str) -> None:
    assert problem_of(text, name) == problem


def test_a_number_of_too_many_digits_is_refused() -> None:
    assert "limit" in problem_of('{"a": ' + "9" * 5000 + "}", "c.json")
    assert "number" in problem_of("a: " + "9" * 5000, "c.yaml")


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    for path, reason in [
        (str(tmp_path / "none"), "No such file or directory"),
        (str(tmp_path), "Is a directory"),
        ("a\0b", "no name of a file"),
    ]:
        with pytest.raises(ConfigurationError, match=reason):
            read_text(path)


def test_a_file_of_over_a_mebibyte_or_not_of_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_bytes(b" " * (MAX_FILE_BYTES + 1))
    with pytest.raises(ConfigurationError, match="above 1 MiB"):
        read_text(str(file))
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        read_text(str(file))
    file.write_bytes(b"\xef\xbb\xbf{}")
    assert read_text(str(file)) == "{}"
