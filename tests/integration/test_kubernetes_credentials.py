"""Tokens and certificates that change while we run, over real TLS; a connection that died silently."""

from __future__ import annotations

import os
import shutil
import ssl
from collections.abc import Iterator
from pathlib import Path
from queue import Queue

import pytest
from kubernetes.config import incluster_config, kube_config

from app.adapters import kubernetes_api, kubernetes_watch
from app.adapters.kubernetes_api import ApiServer
from app.adapters.kubernetes_watch import Kind, ObjectWatch, WatchEvent
from app.errors import ConfigurationError, PeerRefused, PeerUnreachable
from tests.fakes.certificates import Certificate, Certificates, make_certificates
from tests.fakes.kube_server import KubeServer
from tests.fakes.neonvm_cluster import VMS, vm_object
from tests.fleet_process import until
from tests.tcp_proxy import ProxyLoop, TcpProxy

PATH = "/apis/vm.neon.tech/v1/virtualmachines"


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    (tmp_path / "made").mkdir()
    return make_certificates(tmp_path / "made")


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_api, "RELOAD_PAUSE_S", 0.0)


def context(certificate: Certificate, clients: Path | None = None) -> ssl.SSLContext:
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    found.load_cert_chain(certificate.cert, certificate.key)
    if clients is not None:
        found.verify_mode = ssl.CERT_REQUIRED
        found.load_verify_locations(clients)
    return found


@pytest.fixture
def serve() -> Iterator[list[KubeServer]]:
    found: list[KubeServer] = []
    yield found
    for server in found:
        server.close()


def ask(api: ApiServer) -> None:
    api.call("GET", PATH, timeout_s=30)


def replace_file(path: Path, source: Path, age_s: float) -> None:
    """As the kubelet and cert-manager do, in one step; with a time of its own, for files have whole ones."""
    fresh = path.with_suffix(".new")
    shutil.copy(source, fresh)
    os.utime(fresh, (age_s, age_s))
    fresh.rename(path)


def test_in_a_cluster_a_token_that_was_changed_is_read_and_nobody_notices(
    certificates: Certificates,
    serve: list[KubeServer],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    at_once: None,
) -> None:
    server = KubeServer(context(certificates.good))
    serve.append(server)
    token = tmp_path / "token"
    token.write_text("first\n")
    server.faults.token = "first"
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(certificates.authority.cert))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.port))
    api = ApiServer()
    ask(api)
    server.faults.token = "second"
    token.write_text("second")
    ask(api)
    token.write_text("")
    server.faults.token = "third"
    with pytest.raises((PeerUnreachable, PeerRefused)):
        ask(api)
    token.write_text("third")
    ask(api)
    api.close()


def test_a_token_file_of_the_kubeconfig_is_read_again(
    serve: list[KubeServer], tmp_path: Path, at_once: None
) -> None:
    server = KubeServer()
    serve.append(server)
    token = tmp_path / "token"
    token.write_text("first")
    server.faults.token = "first"
    api = ApiServer(server.kubeconfig(str(tmp_path / "k"), tokenFile=str(token)))
    ask(api)
    token.write_text("second")
    server.faults.token = "second"
    ask(api)
    api.close()


BROKEN = ('{"apiVersion": "v1", "clusters": [{"na', "", "[]", "clusters: {", "a: b: c", "hello", "\x00")
"""A kubeconfig that is being written, or is none."""


@pytest.mark.parametrize("text", BROKEN)
def test_a_kubeconfig_that_is_half_written_ends_no_watch(
    serve: list[KubeServer], tmp_path: Path, at_once: None, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(kubernetes_watch, "MAX_PAUSE_S", 0.2)
    server = KubeServer()
    serve.append(server)
    path = tmp_path / "k"
    api = ApiServer(server.kubeconfig(str(path)))
    events: Queue[WatchEvent] = Queue()
    watch = ObjectWatch(api, PATH, {}, events)
    assert watch.read_all() == []
    watch.follow()
    until(lambda: server.open_watches == 1, "it watches")
    whole = path.read_text()
    path.write_text(text)
    os.utime(path, (1_900_000_000.0, 1_900_000_000.0))
    before = server.seen["watch", VMS]
    server.cut_watches()
    until(lambda: server.seen["watch", VMS] > before, "it watches with what it had loaded")
    path.write_text(whole)
    server.store.put(VMS, vm_object("a"))
    assert events.get(timeout=60).item["metadata"]["name"] == "a"
    watch.close()


@pytest.mark.parametrize("text", BROKEN)
def test_a_kubeconfig_that_cannot_be_read_at_first_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "k"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=r"\.kubernetes\.kubeconfig"):
        ask(ApiServer(str(path)))


def test_what_a_watch_did_not_expect_is_told_and_does_not_end_it(
    serve: list[KubeServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = KubeServer()
    serve.append(server)
    api = ApiServer(server.kubeconfig(str(tmp_path / "k")))
    events: Queue[WatchEvent] = Queue()
    watch = ObjectWatch(api, PATH, {}, events)
    assert watch.read_all() == []
    with monkeypatch.context() as broken:
        broken.setattr(kubernetes_watch, "_read_event", lambda line, peer: {}[peer])
        watch.follow()
        server.store.put(VMS, vm_object("a"))
        until(lambda: watch.failures > 0 and "KeyError" in str(watch.problem), "it is told")
    assert events.get(timeout=60).item["metadata"]["name"] == "a"
    watch.close()


def test_the_default_kubeconfig_is_looked_at_again_as_well(
    certificates: Certificates,
    serve: list[KubeServer],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    at_once: None,
) -> None:
    server, later = KubeServer(), KubeServer()
    serve += [server, later]
    path = tmp_path / "k"
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", server.kubeconfig(str(path)))
    api = ApiServer()
    ask(api)
    later.kubeconfig(str(path))
    os.utime(path, (1_900_000_000.0, 1_900_000_000.0))
    ask(api)
    assert later.seen["list", VMS] == 1
    api.close()


def test_a_new_certificate_of_server_and_client_is_taken_without_a_restart(
    certificates: Certificates, serve: list[KubeServer], tmp_path: Path, at_once: None
) -> None:
    (tmp_path / "later").mkdir()
    later = make_certificates(tmp_path / "later")
    files = {name: tmp_path / name for name in ("ca", "cert", "key")}
    for name, source in zip(
        files, (certificates.authority.cert, certificates.good.cert, certificates.good.key), strict=True
    ):
        shutil.copy(source, files[name])
    server = KubeServer(context(certificates.good, certificates.authority.cert))
    serve.append(server)
    kubeconfig = server.kubeconfig(
        str(tmp_path / "k"),
        certificate_authority=str(files["ca"]),
        client_certificate=str(files["cert"]),
        client_key=str(files["key"]),
    )
    api = ApiServer(kubeconfig)
    ask(api)
    port = server.port
    server.close()
    serve.append(KubeServer(context(later.good, later.authority.cert), port=port))
    with pytest.raises(PeerUnreachable, match="TLS"):
        ask(ApiServer(kubeconfig))
    for name, source in zip(files, (later.authority.cert, later.good.cert, later.good.key), strict=True):
        replace_file(files[name], source, 1_900_000_000.0)
    ask(api)
    api.close()


@pytest.mark.parametrize("which", ["expired", "elsewhere"])
def test_a_server_whose_certificate_is_not_good_is_not_talked_to(
    certificates: Certificates, serve: list[KubeServer], tmp_path: Path, which: str
) -> None:
    server = KubeServer(context(getattr(certificates, which)))
    serve.append(server)
    api = ApiServer(
        server.kubeconfig(str(tmp_path / "k"), certificate_authority=str(certificates.authority.cert))
    )
    with pytest.raises(PeerUnreachable, match="TLS"):
        ask(api)
    assert server.seen.total() == 0


def test_a_watch_on_a_connection_that_died_silently_is_replaced_and_misses_nothing(
    serve: list[KubeServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kubernetes_watch.WATCH_S + kubernetes_watch.WATCH_MARGIN_S < 60
    monkeypatch.setattr(kubernetes_watch, "WATCH_S", 2)
    monkeypatch.setattr(kubernetes_watch, "WATCH_MARGIN_S", 0.5)
    server, proxies = KubeServer(), ProxyLoop()
    serve.append(server)
    proxy = TcpProxy(proxies, ("127.0.0.1", server.port))
    api = ApiServer(server.kubeconfig(str(tmp_path / "k"), server=f"http://127.0.0.1:{proxy.port}"))
    events: Queue[WatchEvent] = Queue()
    watch = ObjectWatch(api, PATH, {}, events)
    try:
        assert watch.read_all() == []
        watch.follow()
        until(lambda: server.open_watches == 1, "it watches")
        proxy.drop()
        server.store.put(VMS, vm_object("a"))
        until(lambda: watch.failures > 0, "the silence is noticed")
        proxy.reset()
        event = events.get(timeout=60)
        assert (event.kind, event.item["metadata"]["name"]) == (Kind.ADDED, "a")
        until(lambda: watch.failures == 0, "it watches again")
        assert server.seen["list", VMS] == 1
    finally:
        watch.close()
        proxy.close()
        proxies.close()
