from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from celery import Celery
from flower.options import default_options

from app.config.flower_section import FlowerSettings, is_loopback
from app.config.loading import build_settings
from app.errors import ConfigurationError
from workers.flower import configure_flower, flaw_of, is_flower

GOOD = "ops:correct-horse-1"


@pytest.fixture(autouse=True)
def flower_forgets() -> Iterator[None]:
    """Flower's options are one object in the process."""
    callbacks = list(default_options._parse_callbacks)
    yield
    default_options.basic_auth = []
    default_options._parse_callbacks[:] = callbacks


def configured(environ: dict[str, str] | None = None, **settings: object) -> dict[str, str]:
    environ = {} if environ is None else environ
    configure_flower(Celery("test"), FlowerSettings.model_validate(settings), 4, environ)
    return environ


def asked(**options: object) -> SimpleNamespace:
    defaults = {"basic_auth": [], "auth": "", "unix_socket": "", "address": "127.0.0.1"}
    return SimpleNamespace(**(defaults | options))


def logins(tmp_path: Path, text: str) -> FlowerSettings:
    file = tmp_path / "logins"
    file.write_text(text)
    return FlowerSettings.model_validate({"authFile": str(file)})


def test_flower_listens_on_loopback_unless_told_otherwise() -> None:
    assert configured()["FLOWER_ADDRESS"] == "127.0.0.1"
    assert configured({"FLOWER_ADDRESS": "::1"})["FLOWER_ADDRESS"] == "::1"


def test_flower_is_read_only_unless_told_otherwise() -> None:
    assert configured()["FLOWER_READ_ONLY"] == "true"
    assert configured(readOnly=False)["FLOWER_READ_ONLY"] == "false"


def test_flower_shows_the_queue_of_every_bucket() -> None:
    celery = Celery("test")
    celery.conf.task_default_queue = "vmscaler"
    configure_flower(celery, FlowerSettings(), 3, {})
    names = [queue.name for queue in celery.conf.task_queues]
    assert names == ["vmscaler", *(f"autoscaler-bucket-0{index}-of-03" for index in range(3))]


def test_a_worker_is_not_taken_for_flower() -> None:
    assert is_flower(["celery", "-A", "workers", "flower", "--port=1"])
    assert not is_flower(["celery", "-A", "workers", "worker", "-n", "flowerpot@%h"])


def test_passwords_reach_flower_whole_and_not_through_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "logins"
    file.write_text(f"\n{GOOD}\nother:with,comma:and-colon\n\n")
    environ = configured(authFile=str(file))
    assert default_options.basic_auth == [GOOD, "other:with,comma:and-colon"]
    assert not any("horse" in value for value in environ.values())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no line `user:password`"),
        ("\n \n", "no line `user:password`"),
        ("nobody", "line 1: expected user:password"),
        (":long-enough-password", "line 1: expected user:password"),
        (f"{GOOD}\nops:short", "line 2: the password must have at least 12"),
        ("ops:with space in the middle", "line 1: spaces"),
        ("öps:long-enough-password", "plain ASCII"),
        ("x" * 70_000, "longer than 65536 bytes"),
    ],
)
def test_a_file_that_is_no_list_of_logins_is_refused_without_showing_it(
    tmp_path: Path, text: str, problem: str
) -> None:
    with pytest.raises(ConfigurationError, match=problem) as caught:
        logins(tmp_path, text).logins()
    assert "short" not in str(caught.value)


def test_a_missing_file_of_logins_is_an_error_that_names_the_setting() -> None:
    with pytest.raises(ConfigurationError, match=r"\.flower\.authFile: the file can't be read: No such file"):
        FlowerSettings.model_validate({"authFile": "/nowhere/at/all"}).logins()


@pytest.mark.parametrize("value", ["1", "true", "YES", " on "])
def test_an_api_that_is_open_to_everyone_is_refused(value: str) -> None:
    with pytest.raises(ConfigurationError, match="FLOWER_UNAUTHENTICATED_API: must not be set"):
        configured({"FLOWER_UNAUTHENTICATED_API": value})
    assert configured({"FLOWER_UNAUTHENTICATED_API": "false"})["FLOWER_PORT"] == "5555"


@pytest.mark.parametrize("address", ["", "0.0.0.0", "::", "10.0.0.1", "flower.example"])
def test_beyond_loopback_a_login_is_needed(address: str) -> None:
    assert "set .flower.authFile" in (flaw_of(asked(address=address), []) or "")
    assert flaw_of(asked(address=address, basic_auth=[GOOD]), []) is None
    assert flaw_of(asked(address=address, auth=".*@example.com"), []) is None


def test_a_unix_socket_that_every_user_may_open_needs_a_login_too() -> None:
    assert "/run/flower.sock" in (flaw_of(asked(unix_socket="/run/flower.sock"), []) or "")


@pytest.mark.parametrize(
    "word", ["--basic-auth=a:b", "--basic_auth=a:b", "-basic_auth=a:b", "--cookie-secret=x"]
)
def test_a_secret_on_the_command_line_is_refused_and_not_repeated(word: str) -> None:
    problem = flaw_of(asked(basic_auth=["a:b"]), ["celery", "flower", word]) or ""
    assert "everyone on this machine can read a command line" in problem
    assert "a:b" not in problem


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost", "LOCALHOST"])
def test_loopback_is_known_by_each_of_its_names(host: str) -> None:
    assert is_loopback(host)


def test_the_configuration_itself_is_refused_where_others_could_look(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"\.flower\.authFile: must be set"):
        build_settings({"flower": {"host": "0.0.0.0"}}, {})
    with pytest.raises(ConfigurationError, match=r"\.flower\.tlsKeyFile: must be set beside"):
        build_settings({"flower": {"tlsCertFile": "/a.pem"}}, {})
    good = {"flower": {"host": "0.0.0.0", "authFile": str(tmp_path / "logins")}}
    assert build_settings(good, {}).flower.port == 5555
