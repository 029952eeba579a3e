"""What counts as a secret of a configuration, and what only stands beside one."""

from __future__ import annotations

from pathlib import Path

from app.config import build_settings
from app.config.secrets import known_secrets
from app.config.showing import effective_yaml


def test_only_what_the_files_hold_is_secret_and_not_where_a_value_comes_from(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("the-token-itself\n")
    settings = build_settings({"platform": {"tokenFile": str(secret)}}, {})
    assert known_secrets(settings, {}) == {"the-token-itself"}


def test_a_webhooks_address_is_a_key_and_shown_by_its_host_alone(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("sixteen bytes, or more")
    url = (
        "https://ada:pa55@chat.example:8443/hooks/T000-B000-XXXXXXXXXXXX?key=abc&sig=Zm9vYmFyYmF6cXV1eA%3D%3D"
    )
    webhook = {"name": "chat", "url": url, "secretFile": str(secret)}
    settings = build_settings({"scalingEvents": {"webhooks": [webhook]}}, {})
    (read,) = settings.scaling_events.webhooks
    assert read.url.reveal() == url
    shown = effective_yaml(settings) + repr(settings)
    assert "https://chat.example:8443/***" in shown
    assert not any(part in shown for part in ("pa55", "T000", "Zm9v"))
    assert {
        "pa55",
        "T000-B000-XXXXXXXXXXXX",
        "Zm9vYmFyYmF6cXV1eA%3D%3D",
        "Zm9vYmFyYmF6cXV1eA==",
    } <= known_secrets(settings, {})
