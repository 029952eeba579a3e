"""Commands that serve behind TLS and a token, and commands by hand that get in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from app.adapters.client_tls import client_tls
from app.adapters.metrics_http import MetricsPages
from app.adapters.platform_sim import SimPlatform
from app.cli.root import run
from app.cli.server_options import merged
from app.config.security_section import ServerSecurity
from app.errors import PeerRefused, PeerUnreachable
from app.ports.vm import Address
from app.web.protection import Protection, server_tls
from app.web.scheduler import SchedulerApplication
from tests.core_builders import UNIT
from tests.fakes.certificates import Certificates, make_certificates
from tests.fakes.guest_on_loop import GuestOnLoop
from tests.fakes.scheduler_fleet import machine, node_scheduler, whole
from tests.fakes.serving import served
from tests.fleet_process import FleetProcess

TOKEN = "open-sesame"
Output = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def token_file(tmp_path: Path) -> str:
    path = tmp_path / "token"
    path.touch(mode=0o600)
    path.write_text(TOKEN + "\n")
    return str(path)


def test_a_fleet_with_guarded_vms_is_reached_with_the_authority_and_the_token(
    made: Certificates, token_file: str
) -> None:
    files = ("--tls-cert", str(made.good.cert), "--tls-key", str(made.good.key), "--token-file", token_file)
    fleet = FleetProcess(*files, "--guard-vms", "--allow", "127.0.0.0/8", vms=1)
    tls = client_tls(str(made.authority.cert), where="here")
    platform = SimPlatform(fleet.url, token=TOKEN, tls=tls)
    pages, strangers = MetricsPages(bearer=TOKEN, tls=tls), MetricsPages(tls=tls)
    try:
        (vm,) = platform.changes(None, wait_s=0).updated
        assert vm.metrics is not None
        assert vm.monitor_address is not None
        assert b"node_load1" in pages.fetch(vm.metrics, timeout_s=30)
        with pytest.raises(PeerRefused, match="401"):
            strangers.fetch(vm.metrics, timeout_s=30)
        peer = f"wss://127.0.0.1:{vm.monitor_address.port}"
        trust = ["--ca", str(made.authority.cert), "--timeout", "30"]
        assert run(["monitor", "ping", peer, *trust, "--token-file", token_file]) == 0
        assert run(["monitor", "ping", peer, *trust]) == 1
        assert run(["monitor", "ping", peer, "--token-file", token_file, "--timeout", "30"]) == 3
    finally:
        fleet.stop()
        platform.close()
        pages.close()
        strangers.close()


def test_a_scheduler_and_an_informant_are_asked_by_hand_over_tls(
    made: Certificates, token_file: str, capsys: Output
) -> None:
    tls = server_tls(str(made.elsewhere.cert), str(made.elsewhere.key), where="here")
    application = SchedulerApplication(node_scheduler(whole(machine("a"))), UNIT)
    trust = ["--ca", str(made.authority.cert), "--token-file", token_file, "--timeout", "30"]
    with served(application, protection=Protection(token=TOKEN, tls=tls)) as port:
        words = ["scheduler", "request", f"https://127.0.0.1:{port}", "--pod", "ns/a", "--cpu", "1"]
        words += ["--memory-slots", "1", *trust]
        assert run(words) == 3
        assert "certificate is not accepted" in capsys.readouterr().err
        assert run([*words, "--server-name", "elsewhere.example"]) == 0
    guest = GuestOnLoop(tls=server_tls(str(made.good.cert), str(made.good.key), where="here"))
    try:
        assert run(["informant", "upscale", guest.url, "--memory", "4Gi", *trust]) == 1
        assert "403" in capsys.readouterr().err, "it was reached, and has no agent here"
    finally:
        guest.close()


def test_trust_is_for_addresses_with_tls(capsys: Output) -> None:
    assert run(["monitor", "ping", "ws://127.0.0.1:1", "--ca", "x"]) == 2
    assert "wss://" in capsys.readouterr().err


def test_a_guests_metrics_page_alone_is_guarded_too(made: Certificates, token_file: str) -> None:
    command = [sys.executable, "-m", "app.main", "guest", "metrics", "--listen", "127.0.0.1:0"]
    files = ["--tls-cert", str(made.good.cert), "--tls-key", str(made.good.key), "--token-file", token_file]
    with subprocess.Popen([*command, *files], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert "https://127.0.0.1:" in line
            address = Address("127.0.0.1", int(line.split(":")[-1].partition("/")[0]))
            tls = client_tls(str(made.authority.cert), where="here")
            assert b"node_load1" in MetricsPages(bearer=TOKEN, tls=tls).fetch(address, timeout_s=30)
            with pytest.raises(PeerRefused, match="401"):
                MetricsPages(tls=tls).fetch(address, timeout_s=30)
            with pytest.raises(PeerUnreachable, match="not accepted"):
                MetricsPages(tls=client_tls(None, where="here")).fetch(address, timeout_s=30)
        finally:
            process.terminate()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--allow", "10.0.0.0/40"], "--allow"),
        (["--tls-key", "key.pem"], "--tls-cert"),
        (["--tls-cert", "/nonexistent"], "/nonexistent can't be read"),
        (["--token-file", "/nonexistent"], "tokenFile: the file can't be read"),
    ],
)
def test_a_scheduler_whose_options_cannot_be_used_does_not_start(words: list[str], named: str) -> None:
    command = [sys.executable, "-m", "app.main", "scheduler", "--port", "0", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert named in done.stderr
    assert "Traceback" not in done.stderr


def test_what_is_named_on_the_command_line_stands_in_for_what_is_configured() -> None:
    configured = ServerSecurity(allow=("10.0.0.0/8",), token_file="t", tls_cert_file="c", tls_key_file="k")
    assert merged(None, configured) == configured
    named = ServerSecurity(tls_cert_file="other")
    assert merged(named, configured) == ServerSecurity(
        allow=("10.0.0.0/8",), token_file="t", tls_cert_file="other"
    )
