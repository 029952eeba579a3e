from __future__ import annotations

from pathlib import Path

from app.adapters.log_files import MAX_BYTES, bound_logs


def test_a_log_that_grew_too_large_is_emptied_in_place_and_its_writer_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "worker1.log"
    with log.open("ab", buffering=0) as writer:
        writer.write(b"x" * (MAX_BYTES + 1))
        bound_logs(tmp_path)
        writer.write(b"after\n")
    assert log.read_bytes() == b"after\n"
    assert (tmp_path / "worker1.log.1").stat().st_size == MAX_BYTES + 1


def test_small_logs_and_other_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "beat.log").write_bytes(b"x" * MAX_BYTES)
    (tmp_path / "fleet.json").write_bytes(b"x" * (MAX_BYTES + 1))
    bound_logs(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["beat.log", "fleet.json"]
    assert (tmp_path / "beat.log").stat().st_size == MAX_BYTES
