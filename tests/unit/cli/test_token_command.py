"""`vmscaler token KEY` prints a VM's token, and never the secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.cli.root import run
from app.protocols.stat_tokens import vm_token

SECRET = "sixteen bytes, or more"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("VMSCALER_STATS_SECRET", raising=False)
    (tmp_path / "secret").write_text(SECRET + "\n")
    path = tmp_path / "config.json"
    path.write_text(f'{{"stats": {{"enabled": true, "secretFile": "{tmp_path}/secret"}}}}')
    return path


def test_it_is_made_of_the_secret_in_the_file(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--config", str(config), "token", "default/db"]) == 0
    assert capsys.readouterr().out == vm_token(SECRET, "default/db") + "\n"


def test_the_environments_secret_goes_first(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VMSCALER_STATS_SECRET", "another secret of the fleet")
    assert run(["--config", str(config), "token", "default/db"]) == 0
    assert capsys.readouterr().out == vm_token("another secret of the fleet", "default/db") + "\n"


@pytest.mark.parametrize("key", ["db", "a/b/c", "", "a/\x1b[31m", "/"])
def test_what_is_no_key_is_refused(config: Path, key: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--config", str(config), "token", key]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "namespace/name" in captured.err
    assert "\x1b" not in captured.err


def test_a_missing_or_short_secret_is_a_mistake_of_the_configuration(
    tmp_path: Path, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "secret").write_text("too short")
    assert run(["--config", str(config), "token", "default/db"]) == 2
    err = capsys.readouterr().err
    assert ".stats.secretFile" in err
    assert "too short" not in err.replace("is too short", "")
    config.write_text("{}")
    assert run(["--config", str(config), "token", "default/db"]) == 2
    assert "VMSCALER_STATS_SECRET" in capsys.readouterr().err


def test_config_check_notes_a_secret_that_is_not_there(
    tmp_path: Path, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["config", "check", str(config)]) == 0
    assert capsys.readouterr().err == ""
    (tmp_path / "secret").unlink()
    assert run(["config", "check", str(config)]) == 0
    captured = capsys.readouterr()
    assert "note: .stats.secretFile: the file can't be read" in captured.err
    assert SECRET not in captured.out + captured.err
