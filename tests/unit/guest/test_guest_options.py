"""The options of `vmscaler guest run`: what belongs together."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from app.guest.options import RunOptions, add_run_options, read_run_options
from app.protocols.informant_set import SetSettings

MONITOR = ("--monitor", "127.0.0.1:10301")


def read(*words: str) -> RunOptions:
    parser = argparse.ArgumentParser()
    add_run_options(parser)
    return read_run_options(parser.parse_args(words))


@pytest.fixture
def token(tmp_path: Path) -> str:
    file = tmp_path / "token"
    file.write_text("s3cret\n")
    return str(file)


def test_what_is_not_named_is_off() -> None:
    options = read(*MONITOR)
    assert options.addresses == {"monitor": ("127.0.0.1", 10301)}
    assert (options.has_cpus, options.token, options.callers, options.tls) == (False, None, None, None)


def test_a_port_may_serve_more_than_one() -> None:
    options = read(*MONITOR, "--informant", "127.0.0.1:10301", "--metrics", "[::1]:9100")
    assert options.addresses["monitor"] == options.addresses["informant"]
    assert options.addresses["metrics"] == ("::1", 9100)


def test_the_token_guards_the_informant_and_always_cpus_and_load(token: str) -> None:
    assert read(*MONITOR, "--token-file", token).protected == {"informant", "cpus", "load"}
    options = read(*MONITOR, "--token-file", token, "--token-for", "monitor,metrics")
    assert options.protected == {"monitor", "metrics", "cpus", "load"}
    assert options.token == "s3cret"


def test_lists_of_addresses_add_up() -> None:
    options = read(*MONITOR, "--allow", "10.0.0.0/8", "fd00::/8", "--allow", "127.0.0.1")
    assert options.callers is not None
    assert all(options.callers.has(host) for host in ("10.1.1.1", "fd00::7", "127.0.0.1"))
    assert not options.callers.has("11.0.0.1")
    agents = read(*MONITOR, "--allow-agents", "10.0.0.0/8", "Agent.Example.org").agent_addresses
    assert agents.has("10.1.1.1")
    assert agents.has("agent.example.org")


def test_hooks_are_split_as_a_shell_would() -> None:
    options = read(*MONITOR, "--upscale-hook", "/bin/resize --to 'a b'", "--hook-seconds", "2")
    assert options.upscale_hook is not None
    assert (options.upscale_hook.command, options.upscale_hook.limit_s) == (("/bin/resize", "--to", "a b"), 2)
    assert options.downscale_hook is None


def test_the_times_of_the_informant_are_the_protocols_unless_named() -> None:
    usual = read(*MONITOR)
    assert usual.agents == SetSettings(10, 0.25, 0.2, 0.1, 1)
    assert (usual.watchdog_limit_s, usual.watchdog_every_s) == (0.25, 1)
    named = read(*MONITOR, "--timing", "id=2", "check=5", "--timing", "watchdog=3", "--failed-checks", "4")
    assert named.agents == SetSettings(5, 2, 0.2, 0.1, 4)
    assert named.watchdog_limit_s == 3


@pytest.mark.parametrize(
    "words",
    [
        (),
        (*MONITOR, "--timing", "id"),
        (*MONITOR, "--timing", "id=0"),
        (*MONITOR, "--timing", "id=nan"),
        (*MONITOR, "--timing", "id=soon"),
        (*MONITOR, "--timing", "other=1"),
        (*MONITOR, "--timing", "id=3601"),
        (*MONITOR, "--cpus"),
        (*MONITOR, "--token-for", "everything"),
        (*MONITOR, "--hook-seconds", "0"),
        (*MONITOR, "--hook-seconds", "nan"),
        (*MONITOR, "--hook-seconds", "26"),
        (*MONITOR, "--exporter-port", "0"),
        (*MONITOR, "--failed-checks", "0"),
        (*MONITOR, "--allow", "10.0.0.0/99"),
        (*MONITOR, "--upscale-hook", " "),
        (*MONITOR, "--upscale-hook", "'"),
        (*MONITOR, "--tls-key", "key.pem"),
    ],
)
def test_what_does_not_fit_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(ValueError):
        read(*words)


def test_a_file_that_is_not_there_is_an_error() -> None:
    with pytest.raises(OSError):
        read(*MONITOR, "--token-file", "/nonexistent")
    with pytest.raises(ValueError, match="/nonexistent: No such file"):
        read(*MONITOR, "--tls-cert", "/nonexistent")
    with pytest.raises(ValueError, match="no certificate with the key"):
        read(*MONITOR, "--tls-cert", __file__)
