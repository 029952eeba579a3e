"""A worker whose credentials can't be loaded ends with what to do: it would hold buckets and poll nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.bootstrap.cluster_rights import check_credentials
from app.bootstrap.worker import build_agent
from app.config import Settings, load_settings
from app.errors import ConfigurationError

NEEDING = ({"platform": {"kind": "neonvm"}}, {"ownership": {"leases": "kubernetes"}})


def settings(directory: Path, **sections: Any) -> Settings:
    file = directory / "config.json"
    kubernetes = {"kubeconfig": str(directory / "none"), "leaseNamespace": "sim"}
    file.write_text(json.dumps({"kubernetes": kubernetes, **sections}))
    return load_settings(str(file), {"K8S_POD_IP": "127.0.0.1"})


@pytest.mark.parametrize("sections", NEEDING)
def test_a_worker_is_not_built_where_its_kubeconfig_is_not_there(
    tmp_path: Path, sections: dict[str, Any]
) -> None:
    with pytest.raises(ConfigurationError, match=r"\.kubernetes\.kubeconfig"):
        build_agent(settings(tmp_path, **sections), "w1", None, None)  # type: ignore[arg-type]


def test_nothing_is_loaded_where_no_api_server_is_needed(tmp_path: Path) -> None:
    check_credentials(settings(tmp_path))
