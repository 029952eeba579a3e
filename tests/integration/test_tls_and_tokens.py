"""Our clients against our own servers over TLS, with tokens and networks; and who must not get in."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import requests

from app.adapters.client_tls import ClientTls, client_tls, connect_tls
from app.adapters.monitor_ws import MonitorDialer
from app.errors import ConfigurationError, PeerRefused, PeerUnreachable
from app.guest.access import Access
from app.guest.server import Limits as GuestLimits
from app.guest.tls import server_tls as guest_tls
from app.ports.peers import MonitorCallbacks
from app.ports.vm import Address
from app.protocols.access import AllowedAddresses, parse_network
from app.web.protection import Protection, server_tls
from app.web.server import Limits
from tests.fakes.certificates import Certificate, Certificates, make_certificates
from tests.fakes.guest_on_loop import GuestOnLoop
from tests.fakes.our_clients import (
    OpenClient,
    Reach,
    informant,
    metrics,
    monitor,
    platform,
    scheduler,
)
from tests.fakes.serving import served, talk

TOKEN = "correct horse".replace(" ", "-")
LOOPBACK = AllowedAddresses((parse_network("127.0.0.0/8"),))
NOBODY = AllowedAddresses((parse_network("192.0.2.0/24"),))

Serve = Callable[[Certificate | None, AllowedAddresses | None], contextlib.AbstractContextManager[int]]


def answer(environ: dict[str, str], start_response: Callable[..., object]) -> list[bytes]:
    """What a scheduler and a platform say, in one."""
    size = {"cpu_m": 250, "mem": 1}
    amount = {"vCPUs": "250m", "mem": 1}
    body = json.dumps({"observed": size, "permit": amount, "resourceUnit": amount}).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]


@contextmanager
def web(certificate: Certificate | None, callers: AllowedAddresses | None) -> Iterator[int]:
    tls = None
    if certificate is not None:
        tls = server_tls(str(certificate.cert), str(certificate.key), where="here")
    with served(answer, protection=Protection(callers, TOKEN, tls)) as port:
        yield port


@contextmanager
def guest(certificate: Certificate | None, callers: AllowedAddresses | None) -> Iterator[int]:
    tls = None if certificate is None else guest_tls(str(certificate.cert), str(certificate.key))
    running = GuestOnLoop(
        access=Access(callers, TOKEN), protected=frozenset({"monitor", "informant", "metrics"}), tls=tls
    )
    try:
        yield running.port
    finally:
        running.close()


def ask(client: OpenClient, reach: Reach) -> object:
    """One question by a client of its own."""
    with client(reach) as asking:
        return asking(reach)


CLIENTS = pytest.mark.parametrize(
    ("client", "serve"),
    [
        pytest.param(metrics, guest, id="metrics"),
        pytest.param(monitor, guest, id="monitor"),
        pytest.param(informant, guest, id="informant"),
        pytest.param(scheduler, web, id="scheduler"),
        pytest.param(platform, web, id="platform"),
    ],
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def trust(authority: Certificate, server_name: str | None = None) -> ClientTls:
    return client_tls(str(authority.cert), server_name, where="here")


@CLIENTS
def test_a_client_with_the_authority_and_the_token_is_answered(
    client: OpenClient, serve: Serve, made: Certificates
) -> None:
    with serve(made.good, LOOPBACK) as port:
        ask(client, Reach(port, trust(made.authority), TOKEN))


@CLIENTS
def test_without_tls_the_token_is_asked_for_all_the_same(
    client: OpenClient, serve: Serve, made: Certificates
) -> None:
    with serve(None, None) as port:
        ask(client, Reach(port, None, TOKEN))
        with pytest.raises(PeerRefused, match="401"):
            ask(client, Reach(port, None, "another"))


@CLIENTS
def test_a_client_without_the_token_or_from_elsewhere_is_refused(
    client: OpenClient, serve: Serve, made: Certificates
) -> None:
    with serve(made.good, None) as port, pytest.raises(PeerRefused, match="401"):
        ask(client, Reach(port, trust(made.authority)))
    with serve(made.good, NOBODY) as port, pytest.raises(PeerRefused, match="403"):
        ask(client, Reach(port, trust(made.authority), TOKEN))


@CLIENTS
def test_a_certificate_that_proves_nothing_is_refused_with_the_reason(
    client: OpenClient, serve: Serve, made: Certificates
) -> None:
    with serve(made.good, None) as port, pytest.raises(PeerUnreachable, match="not accepted: unable to get"):
        ask(client, Reach(port, trust(made.stranger), TOKEN))
    with serve(made.expired, None) as port, pytest.raises(PeerUnreachable, match="certificate has expired"):
        ask(client, Reach(port, trust(made.authority), TOKEN))
    with serve(made.elsewhere, None) as port:
        with pytest.raises(PeerUnreachable, match=r"certificate is not valid for '127.0.0.1'|mismatch"):
            ask(client, Reach(port, trust(made.authority), TOKEN))
        ask(client, Reach(port, trust(made.authority, "elsewhere.example"), TOKEN))


@CLIENTS
def test_a_server_without_tls_is_told_from_one_with_it(
    client: OpenClient, serve: Serve, made: Certificates
) -> None:
    with serve(None, None) as port, pytest.raises(PeerUnreachable, match="no TLS: it does not speak TLS"):
        ask(client, Reach(port, trust(made.authority), TOKEN))
    with serve(made.good, None) as port, pytest.raises(Exception, match=r"\d"):
        ask(client, Reach(port, None, TOKEN))


@CLIENTS
def test_who_does_not_finish_the_handshake_holds_up_nobody_else(
    client: OpenClient, serve: Serve, made: Certificates
) -> None:
    with serve(made.good, None) as port, ExitStack() as stack:
        for _ in range(20):
            silent = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
            silent.sendall(b"\x16\x03\x01\x02\x00\x01")
        ask(client, Reach(port, trust(made.authority), TOKEN))


def test_a_handshake_that_goes_on_for_ever_is_ended(made: Certificates) -> None:
    protection = Protection(tls=server_tls(str(made.good.cert), str(made.good.key), where="here"))
    with served(answer, Limits(handshake_s=0.2), protection) as port:
        assert talk(port, b"\x16\x03\x01\x02\x00\x01") == b""
    assert GuestLimits().handshake_s == 10


def test_plain_http_on_a_tls_port_is_hung_up_on_and_the_next_one_is_served(made: Certificates) -> None:
    with web(made.good, None) as port:
        with contextlib.suppress(ConnectionResetError):
            assert not talk(port, b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
        ask(scheduler, Reach(port, trust(made.authority), TOKEN))


def test_a_server_that_never_answers_the_handshake_costs_its_limit_alone(made: Certificates) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        reach = Reach(listener.getsockname()[1], trust(made.authority), timeout_s=0.3)
        for client in (metrics, monitor, informant, scheduler, platform):
            with pytest.raises(PeerUnreachable, match=r"no TLS: (timed out|no handshake in time)"):
                ask(client, reach)


@pytest.mark.parametrize("old", [ssl.TLSVersion.TLSv1_2])
def test_tls_1_2_is_spoken_too(made: Certificates, old: ssl.TLSVersion) -> None:
    tls = server_tls(str(made.good.cert), str(made.good.key), where="here")
    tls.maximum_version = old
    with served(answer, protection=Protection(tls=tls)) as port:
        ask(scheduler, Reach(port, trust(made.authority)))


def test_probes_need_no_token_but_the_right_address(made: Certificates) -> None:
    with web(None, LOOPBACK) as port:
        url = f"http://127.0.0.1:{port}"
        assert requests.get(f"{url}/healthz", timeout=30).status_code == 200
        refused = requests.get(f"{url}/", timeout=30)
        assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, "Bearer")
    with web(None, NOBODY) as port:
        assert requests.get(f"http://127.0.0.1:{port}/healthz", timeout=30).status_code == 403


def test_files_that_hold_no_certificate_are_told_by_their_names(made: Certificates, tmp_path: Path) -> None:
    nothing = tmp_path / "nothing.pem"
    nothing.write_text("nothing")
    good, other = str(made.good.cert), str(made.expired.key)
    wrong = [(str(nothing), None), (good, other), (good, None), ("/nonexistent", None)]
    for certificate, key in wrong:
        with pytest.raises(ConfigurationError, match="here: "):
            server_tls(certificate, key, where="here")
        with pytest.raises(ValueError, match=r"pem|nonexistent"):
            guest_tls(certificate, key)
    for path in (str(nothing), "/nonexistent"):
        with pytest.raises(ConfigurationError, match=f"here: {path}"):
            client_tls(path, where="here")


def test_an_encrypted_key_is_an_error_and_no_question_on_the_terminal(
    made: Certificates, tmp_path: Path
) -> None:
    locked = tmp_path / "locked.key"
    command = ["openssl", "ec", "-in", made.good.key, "-aes128", "-passout", "pass:x", "-out", locked]
    subprocess.run(list(map(str, command)), check=True, capture_output=True, timeout=60)
    with pytest.raises(ConfigurationError, match="no certificate with the key"):
        server_tls(str(made.good.cert), str(locked), where="here")
    with pytest.raises(ValueError, match="no certificate with the key"):
        guest_tls(str(made.good.cert), str(locked))


def test_a_context_believes_the_systems_authorities_where_none_are_named() -> None:
    found = client_tls(None, where="here").context
    assert (found.verify_mode, found.check_hostname) == (ssl.CERT_REQUIRED, True)


def test_a_sender_is_not_held_up_by_a_readers_limit_that_has_passed(made: Certificates) -> None:
    context = guest_tls(str(made.good.cert), str(made.good.key))
    ours, theirs = socket.socketpair()

    def echo() -> None:
        with context.wrap_socket(theirs, server_side=True) as secure:
            while data := secure.recv(100):
                secure.sendall(data)

    peer = threading.Thread(target=echo)
    peer.start()
    try:
        connection = connect_tls(ours, trust(made.authority, "localhost"), "", timeout_s=30)
        connection.settimeout(0.001)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        # The reader's time is over; the sender's begins with each call.
        assert connection.send(b"x" * 10) == 10
        connection.settimeout(30)
        assert connection.recv(100) == b"x" * 10
    finally:
        connection.shutdown(socket.SHUT_RDWR)
        connection.close()
        peer.join(30)


def test_monitor_connections_over_tls_live_through_health_checks(made: Certificates) -> None:
    running = GuestOnLoop(tls=guest_tls(str(made.good.cert), str(made.good.key)))
    checks = threading.Semaphore(0)
    callbacks = MonitorCallbacks(lambda: None, checks.release, lambda reason: None)
    dialer = MonitorDialer(30, health_period_s=0.05, tls=trust(made.authority))
    session = dialer.connect(Address("127.0.0.1", running.port), callbacks, timeout_s=30)
    session.serve_in_background()
    try:
        assert all(checks.acquire(timeout=30) for _ in range(20))
        assert not session.exited
    finally:
        session.close()
        running.close()
