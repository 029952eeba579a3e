"""The manifests of compose/kubernetes, built once for all tests of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.manifests import ALL_OVERLAYS, Deployed, copy_with_secrets


@pytest.fixture(scope="session")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of compose/kubernetes with secrets; not to be changed."""
    return copy_with_secrets(tmp_path_factory.mktemp("manifests"))


@pytest.fixture(scope="session", params=ALL_OVERLAYS)
def deployed(request: pytest.FixtureRequest, kubernetes: Path) -> Deployed:
    """Each overlay, with and without all components; not to be changed."""
    return Deployed(kubernetes, request.param)
