"""A real etcd and kube-apiserver on free ports of loopback, from the folder that KUBEBUILDER_ASSETS names."""

from __future__ import annotations

import json
import socket
import subprocess
from pathlib import Path

import requests

from tests.fakes.certificates import make_certificates
from tests.fleet_process import until

CRD = Path(__file__).parent / "data" / "virtualmachine-crd.json"
TOKEN = "for-this-test-only"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class RealApiServer:
    """Both processes, with the CRD of VirtualMachines; `close` ends them.

    Attributes:
        url: of the API server.
        authority: file with the certificate to trust.
    """

    def __init__(self, assets: Path, directory: Path) -> None:
        certificates = make_certificates(directory)
        self.authority = str(certificates.authority.cert)
        etcd_port, peer_port, port = (_free_port() for _ in range(3))
        self.url = f"https://127.0.0.1:{port}"
        etcd, key = f"http://127.0.0.1:{etcd_port}", str(certificates.authority.key)
        tokens = directory / "tokens.csv"
        tokens.write_text(f'{TOKEN},admin,admin,"system:masters"\n')
        peers = f"http://127.0.0.1:{peer_port}"
        self._log = (directory / "servers.log").open("wb")
        self._processes = [
            self._start(
                assets / "etcd",
                f"--data-dir={directory / 'etcd'}",
                f"--listen-client-urls={etcd}",
                f"--advertise-client-urls={etcd}",
                f"--listen-peer-urls={peers}",
                f"--initial-advertise-peer-urls={peers}",
                f"--initial-cluster=default={peers}",
                "--unsafe-no-fsync",
            ),
            self._start(
                assets / "kube-apiserver",
                f"--etcd-servers={etcd}",
                f"--secure-port={port}",
                "--bind-address=127.0.0.1",
                f"--cert-dir={directory}",
                f"--tls-cert-file={certificates.good.cert}",
                f"--tls-private-key-file={certificates.good.key}",
                f"--token-auth-file={tokens}",
                "--authorization-mode=RBAC",
                "--service-cluster-ip-range=10.0.0.0/24",
                "--disable-admission-plugins=ServiceAccount",
                "--service-account-issuer=https://localhost",
                f"--service-account-key-file={key}",
                f"--service-account-signing-key-file={key}",
            ),
        ]
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        until(lambda: self._ask("GET", "/readyz") == 200, f"the API server is ready; see {self._log.name}")
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "sim"}}
        assert self._ask("POST", "/api/v1/namespaces", namespace) in (201, 409)
        assert self._ask("POST", CRDS, json.loads(CRD.read_text())) == 201
        until(lambda: self._ask("GET", "/apis/vm.neon.tech/v1/virtualmachines") == 200, "the CRD is served")

    def close(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
            process.wait(60)
        self._log.close()

    def _start(self, program: Path, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([program, *arguments], stdout=self._log, stderr=self._log)

    def _ask(self, method: str, path: str, body: object = None) -> int:
        assert all(process.poll() is None for process in self._processes), f"it ended; see {self._log.name}"
        try:
            answer = requests.request(
                method,
                self.url + path,
                json=body,
                headers={"Authorization": f"Bearer {TOKEN}"},
                verify=self.authority,
                timeout=30,
            )
        except requests.ConnectionError:
            return 0
        return answer.status_code


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
