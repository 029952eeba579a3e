from app.cli.tables import Column, table_lines


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
