"""A real etcd and kube-apiserver on free ports of loopback, from the folder that KUBEBUILDER_ASSETS names."""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import requests

from tests.fakes.certificates import make_certificates
from tests.fakes.kube_schema import CRD
from tests.fleet_process import until

ASSETS = os.environ.get("KUBEBUILDER_ASSETS", "")
TOKEN = "for-this-test-only"
ISSUER = "https://localhost"
VMS = "/apis/vm.neon.tech/v1/virtualmachines"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
        {"level": "None"},
    ],
}
"""Requests of service accounts are written down, without their bodies."""


class RealApiServer:
    """Both processes, with the CRD of VirtualMachines and RBAC; `close` ends them.

    Attributes:
        url: of the API server.
        authority: file with the certificate to trust.
        certificate: signed by it, for loopback.
        signing_key: file with the key that tokens of service accounts are signed with.
    """

    def __init__(self, assets: Path, directory: Path) -> None:
        self._assets, self._directory = assets, directory
        self._certificates = make_certificates(directory)
        self.authority = str(self._certificates.authority.cert)
        self.certificate = self._certificates.good
        self.signing_key = self._certificates.stranger.key
        self._public_key = _public_key(self.signing_key)
        etcd_port, self._peer_port, self._port = (_free_port() for _ in range(3))
        self.url = f"https://127.0.0.1:{self._port}"
        self._etcd_url = f"http://127.0.0.1:{etcd_port}"
        self._tokens = directory / "tokens.csv"
        self._tokens.write_text(f'{TOKEN},admin,admin,"system:masters"\n')
        self._policy = directory / "audit-policy.json"
        self._policy.write_text(json.dumps(AUDIT))
        self._log = (directory / "servers.log").open("wb")
        self._etcd = self._start_etcd()
        self._server = self._start_server()
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def restart(self, *, is_killed: bool = False) -> None:
        """End the API server, by SIGKILL or in order, and begin it anew with no cache."""
        (self._server.kill if is_killed else self._server.terminate)()
        self._server.wait(60)
        self._server = self._start_server()
        self._await_ready()
        # Until a collection is cached, it is answered with 429.
        until(lambda: self._status("GET", f"{VMS}?resourceVersion=0&limit=1") == 200, "VMs are cached again")

    def compact(self) -> None:
        """Let etcd forget every version but the present ones."""
        key = base64.b64encode(b"a").decode()
        found = requests.post(f"{self._etcd_url}/v3/kv/range", json={"key": key}, timeout=30).json()
        answer = requests.post(
            f"{self._etcd_url}/v3/kv/compaction",
            json={"revision": found["header"]["revision"], "physical": True},
            timeout=30,
        )
        assert answer.status_code == 200, answer.text

    def ask(self, method: str, path: str, body: object = None, *, token: str = TOKEN) -> requests.Response:
        """As the administrator, or whose token it is."""
        headers = {"Authorization": f"Bearer {token}"}
        return requests.request(
            method, self.url + path, json=body, headers=headers, verify=self.authority, timeout=30
        )

    def make(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Create an object that must not be there yet."""
        answer = self.ask("POST", path, body)
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    def kubeconfig(self, path: str, token: str = TOKEN, *, server: str = "", **user: str) -> str:
        """Write a kubeconfig that leads here; its path.

        Args:
            server: another URL, as a proxy's.
            user: in place of the token, such as `tokenFile`.
        """
        cluster = {"server": server or self.url, "certificate-authority": self.authority}
        text = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "k", "cluster": cluster}],
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "users": [{"name": "u", "user": user or {"token": token}}],
        }
        Path(path).write_text(json.dumps(text))
        return path

    def kubectl(self, *arguments: str, text: str = "") -> str:
        """What `kubectl` prints, as the administrator; the folder has it beside the servers."""
        config = self.kubeconfig(str(self._directory / "kubeconfig"))
        done = subprocess.run(
            [self._assets / "kubectl", f"--kubeconfig={config}", *arguments],
            input=text,
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def account_token(self, namespace: str, name: str) -> str:
        """A token of a service account, by `TokenRequest`."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        return str(self.make(path, {"spec": {}})["status"]["token"])

    def requests_of(self, user: str) -> list[dict[str, Any]]:
        """What the audit log tells of an account's requests: watches when they begin and when they end."""
        lines = (self._directory / "audit.log").read_text().splitlines()
        found = [json.loads(line) for line in lines if f'"{user}"' in line]
        return [each for each in found if each["user"]["username"] == user]

    def close(self) -> None:
        for process in (self._server, self._etcd):
            process.terminate()
            process.wait(60)
        self._log.close()

    # --- processes ------------------------------------------------------------------------------------------

    def _start_etcd(self) -> subprocess.Popen[bytes]:
        peers = f"http://127.0.0.1:{self._peer_port}"
        return self._start(
            "etcd",
            f"--data-dir={self._directory / 'etcd'}",
            f"--listen-client-urls={self._etcd_url}",
            f"--advertise-client-urls={self._etcd_url}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            "--unsafe-no-fsync",
            # Bookmarks go on by it where only other collections change; kubeadm gives clusters 5 s.
            "--watch-progress-notify-interval=1s",
        )

    def _start_server(self) -> subprocess.Popen[bytes]:
        return self._start(
            "kube-apiserver",
            f"--etcd-servers={self._etcd_url}",
            f"--secure-port={self._port}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={self._directory}",
            f"--tls-cert-file={self._certificates.good.cert}",
            f"--tls-private-key-file={self._certificates.good.key}",
            f"--token-auth-file={self._tokens}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--disable-admission-plugins=ServiceAccount",
            f"--audit-policy-file={self._policy}",
            f"--audit-log-path={self._directory / 'audit.log'}",
            f"--service-account-issuer={ISSUER}",
            f"--service-account-key-file={self._public_key}",
            f"--service-account-signing-key-file={self.signing_key}",
        )

    def _start(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [str(self._assets / program), *arguments]
        return subprocess.Popen(command, stdout=self._log, stderr=self._log)

    def _prepare(self) -> None:
        self._await_ready()
        for name in ("sim", "kube-system"):
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            assert self._status("POST", "/api/v1/namespaces", namespace) in (201, 409)
        assert self._status("POST", CRDS, json.loads(CRD.read_text())) == 201
        until(lambda: self._status("GET", VMS) == 200, "the CRD is served")

    def _await_ready(self) -> None:
        until(lambda: self._status("GET", "/readyz") == 200, "the API server is ready")

    def _status(self, method: str, path: str, body: object = None) -> int:
        """0: there is no connection yet."""
        processes = (self._etcd, self._server)
        if any(process.poll() is not None for process in processes):
            raise AssertionError(f"it ended: {Path(self._log.name).read_text(errors='replace')[-3000:]}")
        try:
            return self.ask(method, path, body).status_code
        except requests.ConnectionError:
            return 0


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _public_key(key: Path) -> Path:
    """A file beside it, with its public half."""
    found = key.with_suffix(".pub")
    command = ["openssl", "pkey", "-in", str(key), "-pubout", "-out", str(found)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return found
