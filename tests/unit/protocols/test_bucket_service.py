"""A bucket's Service and EndpointSlice as they are written: by the newest holder, where they differ."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.protocols.bucket_service import (
    BucketEndpoint,
    other_slice_for,
    service_for,
    slice_for,
    written_under,
)

AT = BucketEndpoint("autoscaler-bucket-00-of-04", "ns", "vmscaler", "10.0.0.1", 10_303, 10_300, 7)


def made(at: BucketEndpoint = AT) -> dict[str, Any]:
    found = slice_for(None, at)
    assert found is not None
    return found


def test_the_service_is_called_as_its_bucket_and_selects_nothing() -> None:
    service = service_for(None, AT)
    assert service is not None
    assert service["metadata"]["name"] == "autoscaler-bucket-00-of-04"
    assert service["spec"] == {
        "ports": [{"name": "http", "port": 10_300, "protocol": "TCP", "targetPort": "http"}]
    }


def test_a_service_that_is_right_is_left_alone_whatever_the_api_server_has_filled_in() -> None:
    service = service_for(None, AT)
    assert service is not None
    service["spec"] |= {"clusterIP": "10.96.0.5", "type": "ClusterIP", "selector": None}
    service["spec"]["ports"][0]["nodePort"] = 0
    assert service_for(service, AT) is None


@pytest.mark.parametrize(
    "change",
    [
        {"ports": []},
        {"ports": None},
        {"ports": ["x"]},
        {"ports": [{"name": "http", "port": 1, "protocol": "TCP", "targetPort": "http"}]},
        {"selector": {"app": "x"}},
    ],
)
def test_a_service_that_was_changed_is_repaired_and_keeps_its_address(change: dict[str, Any]) -> None:
    before = service_for(None, AT)
    assert before is not None
    before["spec"] |= {"clusterIP": "10.96.0.5", **change}
    repaired = service_for(before, AT)
    assert repaired is not None
    assert repaired["spec"]["clusterIP"] == "10.96.0.5"
    assert "selector" not in repaired["spec"]
    assert service_for(repaired, AT) is None


def test_the_slice_belongs_to_the_service_and_leads_to_the_holder() -> None:
    found = made()
    assert found["metadata"]["name"] == AT.name
    assert found["metadata"]["labels"] == {
        "kubernetes.io/service-name": AT.name,
        "endpointslice.kubernetes.io/managed-by": "vmscaler",
        "vmscaler/fleet": "vmscaler",
    }
    assert found["addressType"] == "IPv4"
    assert found["endpoints"] == [{"addresses": ["10.0.0.1"], "conditions": {"ready": True}}]
    assert found["ports"] == [{"name": "http", "port": 10_303, "protocol": "TCP"}]
    assert written_under(found) == 7


def test_a_slice_that_is_right_is_left_alone_also_as_an_item_of_a_list() -> None:
    found = made()
    assert slice_for(found, AT) is None
    assert slice_for({name: value for name, value in found.items() if name != "kind"}, AT) is None


def test_the_next_holder_writes_and_the_one_before_no_more() -> None:
    newer = replace(AT, address="10.0.0.2", token=8)
    taken = slice_for({**made(), "other": "field"}, newer)
    assert taken is not None
    assert taken["endpoints"][0]["addresses"] == ["10.0.0.2"]
    assert taken["other"] == "field"
    assert slice_for(taken, AT) is None
    assert slice_for(taken, replace(AT, token=8)) is not None


def test_addresses_of_the_other_kind_have_a_slice_of_their_own_and_the_old_one_is_emptied() -> None:
    newer = replace(AT, address="fd00::2", token=8)
    found = made(newer)
    assert (found["metadata"]["name"], found["addressType"]) == (f"{AT.name}-ipv6", "IPv6")
    emptied = other_slice_for(made(), newer)
    assert emptied is not None
    assert (emptied["endpoints"], emptied["addressType"], written_under(emptied)) == ([], "IPv4", 8)
    assert other_slice_for(emptied, newer) is None
    assert other_slice_for(None, newer) is None
    assert other_slice_for(found, replace(AT, token=7)) is None


@pytest.mark.parametrize("token", [None, 5, "x", "9" * 17, "\u0661"])
def test_a_token_that_cannot_be_read_is_none(token: object) -> None:
    found = made()
    found["metadata"]["annotations"]["vmscaler/token"] = token
    assert written_under(found) == 0
