"""Rights and tokens of an API server: what is refused, how it is worded, and tokens that end."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.adapters import kubernetes_api
from app.adapters.kubernetes_api import ApiServer
from app.errors import PeerRefused
from tests.kube_subject import BASE, CPU, REVIEWS, Subject

GROUP, VMS = "vm.neon.tech", "virtualmachines"
EVERYWHERE = "/apis/vm.neon.tech/v1/virtualmachines"


def test_what_the_rules_do_not_give_is_forbidden_and_the_right_is_named(kube: Subject) -> None:
    reader = kube.account("reader", (GROUP, VMS, ("get", "list")))
    name = kube.name("a")
    kube.create(name)
    assert reader.ask("GET", f"{BASE}/{name}").status_code == 200
    assert reader.ask("GET", EVERYWHERE, limit="1").status_code == 200
    answer = reader.patch(name, ("replace", CPU, 2))
    status = answer.json()
    assert (answer.status_code, status["reason"], status["code"]) == (403, "Forbidden", 403)
    assert f'{VMS}.{GROUP} "{name}" is forbidden: User "system:serviceaccount:sim:' in status["message"]
    about = f'cannot patch resource "{VMS}" in API group "{GROUP}" in the namespace "sim"'
    assert status["message"].endswith(about)
    assert status["details"] == {"name": name, "group": GROUP, "kind": VMS}


def test_a_watch_and_a_subresource_are_rights_of_their_own(kube: Subject) -> None:
    account = kube.account("a", (GROUP, VMS, ("get", "list", "patch")))
    name = kube.name("a")
    kube.create(name)
    assert account.patch(name, ("replace", CPU, 2)).status_code == 200
    answer = account.patch(name, ("add", "/status", {}), sub="/status")
    assert answer.status_code == 403
    assert f'cannot patch resource "{VMS}/status"' in answer.json()["message"]
    answer = account.ask("GET", EVERYWHERE, watch="1", resourceVersion="1", timeoutSeconds="1")
    assert answer.status_code == 403
    said = f'cannot watch resource "{VMS}" in API group "{GROUP}" at the cluster scope'
    assert answer.json()["message"] == f'{VMS}.{GROUP} is forbidden: User "{user(account)}" {said}'


def user(account: Subject) -> str:
    """As the server calls it."""
    message = str(account.ask("GET", "/api/v1/namespaces/sim/pods").json()["message"])
    return message.split('"')[1]


def test_a_refusal_of_the_core_group_has_no_group_in_its_name(kube: Subject) -> None:
    account = kube.account("a", (GROUP, VMS, ("get",)))
    answer = account.ask("GET", "/api/v1/namespaces/kube-system/pods")
    assert answer.status_code == 403
    said = 'cannot list resource "pods" in API group "" in the namespace "kube-system"'
    assert answer.json()["message"] == f'pods is forbidden: User "{user(account)}" {said}'
    assert answer.json()["details"] == {"kind": "pods"}


def test_an_account_may_ask_what_it_may(kube: Subject) -> None:
    account = kube.account("a", (GROUP, VMS, ("patch",)))
    assert account.may("patch", GROUP, VMS)
    assert not account.may("delete", GROUP, VMS)
    assert not account.may("patch", "", "pods")
    assert kube.may("delete", GROUP, VMS)
    answer = account.ask("POST", REVIEWS, review("patch"))
    assert answer.status_code == 201
    assert answer.json()["kind"] == "SelfSubjectAccessReview"
    assert answer.json()["status"]["allowed"] is True


def review(verb: str) -> dict[str, object]:
    about = {"verb": verb, "group": GROUP, "resource": VMS, "namespace": "sim"}
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": about},
    }


def test_a_token_whose_time_is_over_is_unauthorized(kube: Subject) -> None:
    account = kube.account("a", (GROUP, VMS, ("get", "list")))
    answer = kube.ended(account).ask("GET", EVERYWHERE)
    assert (answer.status_code, answer.json()["reason"]) == (401, "Unauthorized")
    assert answer.json()["message"] == "Unauthorized"


def test_our_client_takes_the_new_token_when_the_old_one_has_ended(
    kube: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes_api, "RELOAD_PAUSE_S", 0.0)
    account = kube.account("a", (GROUP, VMS, ("list",)))
    token = tmp_path / "token"
    token.write_text(kube.ended(account).token)
    api = ApiServer(kube.kubeconfig(str(tmp_path / "kubeconfig"), tokenFile=str(token)))
    try:
        with pytest.raises(PeerRefused) as refused:
            api.call("GET", EVERYWHERE, timeout_s=30)
        assert refused.value.code == 401
        token.write_text(account.token)
        assert api.call("GET", EVERYWHERE, timeout_s=30)["kind"] == "VirtualMachineList"
    finally:
        api.close()


@pytest.mark.parametrize(("told", "code", "reason"), [(403, 403, "Forbidden"), (None, 400, None)])
def test_what_a_webhook_denies_says_so_and_has_its_code(
    kube: Subject, told: int | None, code: int, reason: str | None
) -> None:
    name = kube.name("a")
    before = kube.create(name)
    kube.deny(name, "not now", told)
    answer = kube.patch(name, ("replace", CPU, 2))
    status = answer.json()
    assert (answer.status_code, status["code"], status.get("reason")) == (code, code, reason)
    assert status["message"].startswith("admission webhook ")
    assert status["message"].endswith(" denied the request: not now")
    assert kube.get(name)["spec"] == before["spec"]


def test_a_path_of_no_api_is_answered_without_a_status(kube: Subject) -> None:
    answer = kube.ask("GET", "/apis/none.neon.tech/v1/virtualmachines")
    assert (answer.status_code, answer.text) == (404, "404 page not found\n")
