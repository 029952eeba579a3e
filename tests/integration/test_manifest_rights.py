"""The rights that compose/kubernetes gives are those that our code uses: each of them, and no more.

Everything that talks to an API server is driven over TLS, as a pod does it: with the service account's token
and the cluster's certificate, with the settings and the rights of the manifests.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kubernetes.config import incluster_config

from app.adapters.clock import SystemClock
from app.adapters.kubernetes_api import ApiServer
from app.adapters.kubernetes_bucket_services import KubernetesBucketServices, ServicePlace
from app.adapters.kubernetes_lease_objects import KubernetesLeaseObjects
from app.adapters.kubernetes_probe import KubernetesLook
from app.bootstrap import leases
from app.bootstrap.cluster_rights import needed_rights, useful_rights
from app.bootstrap.kubernetes import build_neonvm, build_pod_watch, build_vm_events
from app.core.resources import resources
from app.errors import PeerRefused
from app.ports.store import BucketName, FencingToken
from app.ports.vm import VmKey
from app.protocols.bucket_lease import BucketLease, new_lease, with_lease
from app.protocols.kubernetes_rights import Right
from tests.fakes.certificates import Certificates, make_certificates
from tests.fakes.kube_rights import Request
from tests.fakes.kube_server import KubeServer
from tests.fakes.neonvm_cluster import VMS, vm_object
from tests.fleet_process import until
from tests.manifest_rights import DeployedAccount, account_of
from tests.manifests import OVERLAYS, Deployed, copy_with_secrets, settings_of

ROOT = Path(__file__).parents[2]
TOKEN = "of-the-worker"
BUCKET = BucketName("autoscaler-bucket-00-of-16")
DRIVEN = {
    "app/adapters/kubernetes_bucket_services.py",
    "app/adapters/kubernetes_events.py",
    "app/adapters/kubernetes_lease_objects.py",
    "app/adapters/kubernetes_scheduler.py",
    "app/adapters/kubernetes_watch.py",
    "app/adapters/platform_neonvm.py",
}
"""Modules that send requests, all of which this test makes them send."""

OPEN_TO_ALL = {"app/adapters/kubernetes_probe.py"}
"""What it asks every account of a cluster may ask: version, discovery, reviews of its own rights."""


class Pod:
    """A worker's pod in a cluster: the API server, and the rights of the worker's account there."""

    def __init__(
        self, deployed: Deployed, certificates: Certificates, directory: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.good.cert, certificates.good.key)
        self.server = KubeServer(context)
        self.server.faults.token = TOKEN
        self.account: DeployedAccount = account_of(deployed, "vmscaler-worker")
        self.server.accounts[TOKEN] = self.account
        (directory / "token").write_text(TOKEN)
        monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(directory / "token"))
        monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(certificates.authority.cert))
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(self.server.port))
        self.settings = settings_of(deployed, "worker", directory)

    def scale_a_vm(self) -> None:
        """List, watch, read and patch VMs; tell of one that can't be read."""
        label = self.settings.platform.enabled_label
        for name in ("good", "bad"):
            item = vm_object(name)
            item["metadata"]["labels"] = {label: "true"}
            item["status"]["node"] = self.settings.env.node_name
            if name == "bad":
                item["spec"]["guest"]["cpus"]["max"] = "many"
            self.server.store.put(VMS, item)
        platform = build_neonvm(self.settings)
        found = platform.changes(None, wait_s=0)
        (vm,) = found.updated
        until(lambda: self.server.open_watches == 1, "the VMs are watched")
        platform.read_size(vm, timeout_s=30)
        platform.apply_size(vm, resources(500, 2), token=FencingToken(1), timeout_s=30)
        reports = build_vm_events(self.settings, platform, SystemClock(), "worker1")
        assert reports is not None
        reports.warn(VmKey("sim/bad"), "it is bad", timeout_s=30)
        platform.close()

    def find_the_scheduler(self) -> None:
        """List and watch its pods."""
        build_pod_watch(self.settings, SystemClock()).current()
        until(lambda: ("watch", "pods") in self.server.seen, "the scheduler's pods are watched")

    def hold_a_lease(self) -> None:
        """List, watch, create, update and read leases."""
        objects = KubernetesLeaseObjects(ApiServer(), "vmscaler", "vmscaler", [BUCKET])
        objects.news(timeout_s=30)
        until(lambda: ("watch", "leases") in self.server.seen, "leases are watched")
        moment = "2026-01-31T12:00:00.000000Z"
        lease = BucketLease("w_10.0.0.1", "agent", 1, 1, 15, moment, moment)
        wanted = with_lease(new_lease(BUCKET, "vmscaler"), lease, "vmscaler")
        for _ in range(2):
            answer = objects.write({BUCKET: wanted}, timeout_s=30)[BUCKET]
            assert isinstance(answer, dict)
            wanted = dict(answer)
        assert objects.read(BUCKET, timeout_s=30) is not None
        objects.close()

    def keep_bucket_services(self) -> None:
        """List, create and update Services and EndpointSlices."""
        for token, address, port in ((1, "10.0.0.1", 9100), (2, "10.0.0.2", 9200)):
            place = ServicePlace("vmscaler", "vmscaler", address, port)
            services = KubernetesBucketServices(ApiServer(), place)
            assert services.publish({BUCKET: FencingToken(token)}, port, lambda bucket, token: 30.0) == {}


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_with_secrets(tmp_path_factory.mktemp("manifests"))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def start_pod(
    kubernetes: Path, certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], Pod]]:
    made: list[Pod] = []

    def start(overlay: str) -> Pod:
        made.append(Pod(Deployed(kubernetes, overlay), certificates, tmp_path, monkeypatch))
        return made[-1]

    yield start
    for pod in made:
        pod.server.close()


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_worker_uses_each_right_that_it_has_and_needs_no_other(
    overlay: str, start_pod: Callable[[str], Pod]
) -> None:
    pod = start_pod(overlay)
    pod.scale_a_vm()
    pod.find_the_scheduler()
    assert pod.account.used == pod.account.granted
    assert pod.account.refused == set()


def test_leases_and_names_in_the_cluster_take_the_rights_of_their_components_and_no_other(
    start_pod: Callable[[str], Pod],
) -> None:
    pod = start_pod("free-with-all")
    before = set(pod.account.granted)
    pod.hold_a_lease()
    assert {right for right in before if right[2] == "leases"} == pod.account.used
    pod.keep_bucket_services()
    assert pod.account.refused == set()
    pod.scale_a_vm()
    pod.find_the_scheduler()
    assert pod.account.used == pod.account.granted


@pytest.mark.parametrize("overlay", [*OVERLAYS, "free-with-all"])
def test_doctor_asks_for_the_rights_that_the_manifests_give(
    overlay: str, start_pod: Callable[[str], Pod], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "namespace").write_text("vmscaler")
    monkeypatch.setattr(leases, "POD_NAMESPACE", tmp_path / "namespace")
    pod = start_pod(overlay)
    ownership = pod.settings.ownership.model_copy(update={"services": overlay.endswith("-with-all")})
    settings = pod.settings.model_copy(update={"ownership": ownership})
    rights = [*needed_rights(settings), *useful_rights(settings)]
    asked = {(right.namespace or "*", right.group, right.resource, right.verb) for right in rights}
    assert asked == pod.account.granted
    look = KubernetesLook(ApiServer())
    assert all(look.is_allowed(right) for right in rights)
    assert not look.is_allowed(Right("delete", "vm.neon.tech", VMS))


def test_a_right_that_the_manifests_do_not_give_is_missed_at_once(start_pod: Callable[[str], Pod]) -> None:
    pod = start_pod("free")
    pod.account.granted.remove(("*", "vm.neon.tech", VMS, "patch"))
    with pytest.raises(PeerRefused, match=r"rights get and patch on virtualmachines\.vm\.neon\.tech"):
        pod.scale_a_vm()
    assert {(each.verb, each.resource) for each in pod.account.refused} == {("patch", VMS)}
    with pytest.raises((PeerRefused, AssertionError)):
        pod.hold_a_lease()


def test_rights_end_where_the_manifests_end_them(start_pod: Callable[[str], Pod]) -> None:
    pod = start_pod("free-with-all")
    for asked in (
        Request("list", "", "pods", "sim"),
        Request("list", "", "secrets", "vmscaler"),
        Request("delete", "vm.neon.tech", VMS, "sim", "vm"),
        Request("update", "vm.neon.tech", VMS, "sim", "vm"),
        Request("patch", "vm.neon.tech", f"{VMS}/status", "sim", "vm"),
        Request("get", "coordination.k8s.io", "leases", "kube-system", "other"),
        Request("delete", "coordination.k8s.io", "leases", "vmscaler", BUCKET),
        Request("list", "", "events", "sim"),
    ):
        assert not pod.account.may(asked)


@pytest.mark.parametrize("name", ["vmscaler-beat", "vmscaler-flower", "vmscaler-redis"])
def test_the_other_processes_have_no_rights_at_all(name: str, kubernetes: Path) -> None:
    deployed = Deployed(kubernetes, "free-with-all")
    assert account_of(deployed, name).granted == set()


def test_whatever_sends_requests_to_an_api_server_is_driven_here() -> None:
    pattern = re.compile(r"_api\.(call|lines)\(|\bapi\.(call|lines)\(|ObjectWatch\(self\._api")
    sending = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "app").rglob("*.py")
        if pattern.search(path.read_text())
    }
    assert sending == DRIVEN | OPEN_TO_ALL
