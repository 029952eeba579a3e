# vmscaler: what a developer and an operator on a laptop call.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup lock demo demo-vm test test-vm test-k8s soak-vm check bench chaos chaos-billing clean

help: ## show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

setup: $(STAMP) ## install into .venv, the versions of requirements.lock

$(STAMP): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "vmscaler needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Name another with: make PYTHON=python3.12 setup")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $(STAMP)

lock: ## write requirements.lock anew from pyproject.toml (needs uv)
	uv pip compile --quiet --all-extras --universal --python-version 3.11 --generate-hashes --no-annotate --no-header pyproject.toml -o requirements.lock

demo: setup ## a whole fleet on this machine, live on one screen (DEMO_SECONDS=90: unattended)
	@$(BIN)/vmscaler demo --stop-with-parent

demo-vm: setup ## two real VMs, scaled under load, no root (DEMO_SECONDS=240: unattended; needs QEMU)
	@$(BIN)/vmscaler demo-vm --stop-with-parent

check: setup ## style, types, floors, fast tests (about 2 min)
	$(BIN)/ruff check app workers tests
	$(BIN)/ruff format --check app workers tests
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n 2 --ignore tests/architecture/test_pure_coverage.py tests/unit tests/property tests/model tests/architecture

test: setup ## every test (about 9 min)
	$(BIN)/python -m pytest -n 3 --dist loadfile tests

bench: setup ## CPU and memory: operations, monitors, metrics, a whole fleet, what operations cost (about 9 min)
	$(BIN)/python -m tests.bench

chaos: setup ## a fleet under faults from a seed, judged by journals (CHAOS_SECONDS=180 CHAOS_SEED=1)
	@$(BIN)/python -m tests.chaos

chaos-billing: setup ## billing while its processes are killed (BILLING_KILLS=100 BILLING_SEED=1 BILLING_WORKERS=real)
	@$(BIN)/python -m tests.billing_chaos

test-vm: setup ## safety on a real VM, and the QMP contract against a real QEMU (about 10 min; needs QEMU)
	VMSCALER_TEST_VM=1 $(BIN)/python -m pytest tests/vm tests/contract/test_qmp_contract.py

test-k8s: setup ## contract, manifests and a whole worker on a real API server (KUBEBUILDER_ASSETS=folder; about 6 min)
	@for each in etcd kube-apiserver kubectl; do test -x "$(KUBEBUILDER_ASSETS)/$$each" || { echo "KUBEBUILDER_ASSETS must name a folder with etcd, kube-apiserver and kubectl: $$each is missing (docs/platforms/neonvm.md)" >&2; exit 1; }; done
	$(BIN)/python -m pytest tests/contract/test_kubernetes_*contract.py tests/system/test_neonvm_real_apiserver.py

soak-vm: setup ## a fleet on two real VMs under changing load (VM_SOAK_SECONDS=3600 VM_SOAK_SEED=1)
	@$(BIN)/python -m tests.vm.soak

clean: ## remove what the build and the tests left
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
