"""One API server for the contract suite: the double, or a real one; with what a test does to either."""

from __future__ import annotations

import base64
import copy
import itertools
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
from requests.adapters import HTTPAdapter

from tests.fakes.kube_resources import denial
from tests.fakes.kube_rights import Account
from tests.fakes.kube_server import ENDED, KubeServer
from tests.fakes.neonvm_cluster import VMS, vm_object
from tests.fleet_process import until
from tests.real_apiserver import ISSUER, TOKEN, RealApiServer
from tests.service_tokens import sign_token
from tests.webhook import NAME as WEBHOOK
from tests.webhook import Webhook

NAMESPACE = "sim"
BASE = f"/apis/vm.neon.tech/v1/namespaces/{NAMESPACE}/virtualmachines"
ACCOUNTS = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
CPU, SLOTS = "/spec/guest/cpus/use", "/spec/guest/memorySlots/use"

FILLERS = 16
"""Objects that are created at a time."""

LEEWAY_S = 60
"""For as long after its end a real server takes a token."""

Rule = tuple[str, str, tuple[str, ...]]
"""Group, resource, verbs."""


def version(item: dict[str, Any]) -> int:
    """Of an object, or of a list."""
    return int(item["metadata"]["resourceVersion"])


@dataclass
class Subject:
    """One API server, asked by one account.

    Attributes:
        mark: label of this test's objects: a real server has those of others too.
        token: whose rights a request has.
    """

    url: str
    verify: str | bool
    mark: str
    token: str = TOKEN

    def ask(self, method: str, path: str, body: object = None, **query: str) -> requests.Response:
        kind = "application/json-patch+json" if method == "PATCH" else "application/json"
        return self.send(method, path, json.dumps(body) if body is not None else None, kind, query)

    def send(
        self,
        method: str,
        path: str,
        body: str | None,
        kind: str,
        query: dict[str, str],
        *,
        stream: bool = False,
    ) -> requests.Response:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind}
        return requests.request(
            method,
            self.url + path,
            data=body,
            params=query,
            headers=headers,
            verify=self.verify,
            timeout=60,
            stream=stream,
        )

    def create(self, name: str, **labels: str) -> dict[str, Any]:
        item = vm_object(name)
        item["metadata"]["labels"] |= {"mark": self.mark, **labels}
        answer = self.ask("POST", BASE, item)
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    def name(self, name: str) -> str:
        """One that no other test has."""
        return f"{name}-{self.mark}"

    def get(self, name: str) -> dict[str, Any]:
        answer = self.ask("GET", f"{BASE}/{name}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def patch(self, name: str, *operations: tuple[str, str, object], sub: str = "") -> requests.Response:
        body = [{"op": op, "path": path, "value": value} for op, path, value in operations]
        return self.ask("PATCH", f"{BASE}/{name}{sub}", body, fieldManager="vmscaler")

    def page(self, **query: str) -> dict[str, Any]:
        answer = self.ask("GET", BASE, labelSelector=f"mark={self.mark}", **query)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def watch(self, version: str, seconds: int = 2, **query: str) -> list[tuple[str, dict[str, Any]]]:
        """All that a watch tells until the server ends it."""
        query = {"labelSelector": f"mark={self.mark}", **query}
        answer = self.ask(
            "GET", BASE, watch="1", resourceVersion=version, timeoutSeconds=str(seconds), **query
        )
        if answer.status_code != 200:
            return [("ERROR", answer.json())]
        events = [json.loads(line) for line in answer.text.splitlines()]
        return [(event["type"], event["object"]) for event in events]

    def watch_some(self, version: str, count: int, **query: str) -> list[tuple[str, dict[str, Any]]]:
        """The first events of a watch that is then broken off."""
        query = {"labelSelector": f"mark={self.mark}", "timeoutSeconds": "60", **query}
        query |= {"watch": "1", "resourceVersion": version}
        found: list[tuple[str, dict[str, Any]]] = []
        with self.send("GET", BASE, None, "", query, stream=True) as answer:
            for line in answer.iter_lines():
                event = json.loads(line)
                found.append((event["type"], event["object"]))
                if len(found) == count:
                    break
        return found

    def may(self, verb: str, group: str, resource: str) -> bool:
        """Whether this account may do it in every namespace, by a review of itself."""
        about = {"verb": verb, "group": group, "resource": resource}
        answer = self.ask(
            "POST",
            REVIEWS,
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": about},
            },
        )
        assert answer.status_code == 201, answer.text
        return bool(answer.json()["status"]["allowed"])

    @contextmanager
    def while_others_change(self) -> Iterator[None]:
        """Objects of another kind change all the time."""
        path, ends = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases", threading.Event()

        def change() -> None:
            for turn in itertools.count():
                if ends.wait(0.3):
                    return
                name = self.name(f"other-{turn}")
                self.ask("POST", path, {"metadata": {"name": name}, "spec": {}})

        thread = threading.Thread(target=change, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ends.set()
            thread.join(60)

    # --- what the two do differently ------------------------------------------------------------------------

    many = 2_000
    """Objects of the test of a large list; a real server is given 10,000, which takes it a minute."""

    def forget(self) -> None:
        """Let it forget its older versions."""
        raise NotImplementedError

    def fill(self, count: int) -> None:
        """Create so many objects of this test."""
        raise NotImplementedError

    def account(self, name: str, *rules: Rule) -> Subject:
        """The same server, asked by a new service account that has these rights in every namespace."""
        raise NotImplementedError

    def ended(self, account: Subject) -> Subject:
        """The same account, with a token whose time is over."""
        raise NotImplementedError

    def kubeconfig(self, path: str, **files: str) -> str:
        """Write a kubeconfig of this account; its path."""
        raise NotImplementedError

    def deny(self, name: str, why: str, code: int | None = 403) -> None:
        """Let a validating webhook deny changes of an object, with a code of its own or with none."""
        raise NotImplementedError

    def close(self) -> None:
        """End what was begun for this test."""

    def _filling(self, index: int) -> dict[str, Any]:
        item = vm_object(self.name(f"vm-{index:05}"))
        item["metadata"]["labels"]["mark"] = self.mark
        return item


class DoubleSubject(Subject):
    """The double."""

    def __init__(self, server: KubeServer, mark: str) -> None:
        super().__init__(server.url, True, mark)
        self._server = server

    def forget(self) -> None:
        self._server.store.bump()
        self._server.store.compact()

    def fill(self, count: int) -> None:
        for index in range(count):
            self._server.store.put(VMS, self._filling(index))

    def account(self, name: str, *rules: Rule) -> Subject:
        rights = {(verb, group, resource) for group, resource, verbs in rules for verb in verbs}
        user = f"system:serviceaccount:{NAMESPACE}:{name}"
        found = copy.copy(self)
        found.token = f"of-{name}"
        self._server.accounts[found.token] = Account(user, rights)
        return found

    def ended(self, account: Subject) -> Subject:
        found = copy.copy(self)
        found.token = f"{ENDED}{account.token}"
        return found

    def kubeconfig(self, path: str, **files: str) -> str:
        return self._server.kubeconfig(path, self.token, **files)

    def deny(self, name: str, why: str, code: int | None = 403) -> None:
        def validate(resource: str, item: dict[str, Any]) -> None:
            if item["metadata"]["name"] == name:
                raise denial(WEBHOOK, why, code)

        self._server.store.validate = validate


class RealSubject(Subject):
    """A real one."""

    many = 10_000

    def __init__(self, server: RealApiServer, mark: str) -> None:
        super().__init__(server.url, server.authority, mark)
        self._server = server
        self._account: dict[str, Any] = {}
        self._webhook: Webhook | None = None

    def forget(self) -> None:
        self.create(self.name("newer"), mark="none")
        self._server.compact()
        self._server.restart()

    def fill(self, count: int) -> None:
        session = requests.Session()
        session.headers["Authorization"] = f"Bearer {self.token}"
        session.mount("https://", HTTPAdapter(pool_maxsize=FILLERS))

        def make(index: int) -> int:
            item = self._filling(index)
            # Not by the session: the environment would be asked before it.
            return session.post(self.url + BASE, json=item, timeout=60, verify=self.verify).status_code

        with ThreadPoolExecutor(FILLERS) as pool:
            assert set(pool.map(make, range(count))) == {201}

    def account(self, name: str, *rules: Rule) -> Subject:
        name = self.name(name)
        account = self._server.make(ACCOUNTS, {"apiVersion": "v1", "metadata": {"name": name}})
        given = [
            {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}
            for group, resource, verbs in rules
        ]
        self._server.make(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": given})
        binding = {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}],
        }
        self._server.make(f"{RBAC}/clusterrolebindings", binding)
        found = copy.copy(self)
        found._account = account["metadata"]
        found.token = self._server.account_token(NAMESPACE, name)
        # The server learns of a binding by a watch of its own.
        group, resource, verbs = rules[0]
        until(lambda: found.may(verbs[0], group, resource), f"the rights of {name} are known")
        return found

    def deny(self, name: str, why: str, code: int | None = 403) -> None:
        self._webhook = Webhook(self._server.certificate)
        self._webhook.denied[name], self._webhook.code = why, code
        authority = base64.b64encode(Path(self._server.authority).read_bytes())
        self._server.make(WEBHOOKS, self._webhook.configuration(authority))
        # The server learns of it by a watch of its own; the status is no webhook's affair.
        probe = [("add", "/metadata/labels/probe", "x")]
        until(lambda: not self.patch(name, *probe).ok, "the webhook is asked")

    def close(self) -> None:
        if self._webhook is not None:
            assert self._server.ask("DELETE", f"{WEBHOOKS}/{WEBHOOK}").ok
            self._webhook.close()
        answer = self.ask("DELETE", BASE, labelSelector=f"mark in ({self.mark},none)")
        assert answer.ok, answer.text

    def ended(self, account: Subject) -> Subject:
        assert isinstance(account, RealSubject)
        found, about = copy.copy(account), account._account
        key, name, uid = self._server.signing_key, about["name"], about["uid"]
        found.token = sign_token(key, ISSUER, NAMESPACE, name, uid, ends_in_s=-LEEWAY_S - 60)
        return found

    def kubeconfig(self, path: str, **files: str) -> str:
        return self._server.kubeconfig(path, self.token, **files)
