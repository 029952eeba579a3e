"""What counts as a secret of a configuration, and what only stands beside one."""

from __future__ import annotations

from pathlib import Path

from app.config import build_settings
from app.config.secrets import known_secrets


def test_only_what_the_files_hold_is_secret_and_not_where_a_value_comes_from(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("the-token-itself\n")
    settings = build_settings({"platform": {"tokenFile": str(secret)}}, {})
    assert known_secrets(settings, {}) == {"the-token-itself"}
