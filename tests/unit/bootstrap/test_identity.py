"""Who a worker is towards others."""

from __future__ import annotations

import ipaddress

import pytest

from app.bootstrap.identity import make_facts, make_holder, own_ip
from app.cluster.lease import parse_identity
from app.config import load_settings


@pytest.mark.parametrize(
    ("pod_ip", "host", "ip"),
    [
        ("10.1.2.3", "127.0.0.1", "10.1.2.3"),
        ("fe80::1", "0.0.0.0", "fe80::1"),
        (None, "127.0.0.1", "127.0.0.1"),
        (None, "::1", "::1"),
    ],
)
def test_the_pods_address_goes_before_the_one_that_we_listen_on(
    pod_ip: str | None, host: str, ip: str
) -> None:
    assert own_ip(pod_ip, host) == ip


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "localhost"])
def test_what_is_no_single_address_is_replaced_by_one(host: str) -> None:
    assert not ipaddress.ip_address(own_ip(None, host)).is_unspecified


def test_a_restarted_process_of_the_same_name_is_another_holder() -> None:
    settings = load_settings(None, {"K8S_POD_IP": "fd00::7"})
    first, second = make_holder(settings, "worker_1"), make_holder(settings, "worker_1")
    assert first.identity == second.identity == "worker_1_fd00::7"
    assert parse_identity(first.identity) == ("worker_1", "fd00::7")
    assert first != second


def test_the_registry_is_told_the_protocol_range_and_the_start() -> None:
    facts = make_facts("w", 5)
    assert facts["protocol"] == {"min": 1, "max": 1}
    assert (facts["name"], facts["started_ms"]) == ("w", 5)
