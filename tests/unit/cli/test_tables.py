import click
import pytest

from app.cli.tables import Column, show_table, table_lines


def test_columns_are_aligned_numbers_to_the_right_without_trailing_spaces() -> None:
    lines = table_lines(
        [Column("vm"), Column("load", is_right=True), Column("why")],
        [["ns/a", "12.50", "enough"], ["ns/longer", "0.10", ""]],
    )
    assert lines == [
        "VM          LOAD  WHY",
        "ns/a       12.50  enough",
        "ns/longer   0.10",
    ]


def test_a_table_without_rows_is_its_titles() -> None:
    assert table_lines([Column("vm"), Column("why")], []) == ["VM  WHY"]


def test_a_terminal_gets_one_line_a_row_with_the_last_column_cut_at_its_edge(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    show_table([Column("vm"), Column("why", is_wide=True, is_cut=True)], [["ns/a", "word " * 20]])
    title, row = click.unstyle(capsys.readouterr().out).splitlines()
    assert title.startswith("VM")
    assert row.startswith("ns/a  word word")
    assert row.endswith("…")
    assert len(row) == 40


def test_markup_in_a_cell_is_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    show_table([Column("vm")], [["[red]not red[/red]"]])
    assert "[red]not red[/red]" in capsys.readouterr().out
