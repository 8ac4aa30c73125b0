# Everything a developer or CI runs. Each target sets up what it needs; see `make help`.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

CARGO := hack/cargo.sh
# With the features that the tests have, so that nothing is compiled twice.
PROGRAMS := --workspace --bins
# Kubewarden's own programs and definitions, where they are to be had.
export KWCTL POLICY_SERVER KUBEWARDEN_CRDS

# Where the tests find what is not built by cargo for them.
WITH_TOOLS = PPS_CONTROL_PLANE_DIR="$$(hack/control-plane.sh)" PPS_MANIFEST_TOOLS_DIR="$$(hack/manifest-tools.sh)"

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z.-]+:.*## / {printf "  %-24s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: setup programs ## Show what the product does, on a real control plane (ARGS=--keep to look around)
	PPS_CONTROL_PLANE_DIR="$$(hack/control-plane.sh)" "$${CARGO_TARGET_DIR:-target}/debug/pps-demo" $(ARGS)

.PHONY: test
test: setup test-tools programs ## Run all tests: units, properties, corpus, and scenarios on a real control plane
	$(WITH_TOOLS) $(CARGO) test --workspace --locked

.PHONY: unit-tests
unit-tests: ## Run the tests that need no control plane and no Wasm
	$(CARGO) test --workspace --exclude pps-e2e --locked

.PHONY: e2e-tests
e2e-tests: setup test-tools programs ## Run the scenarios on a real control plane (T=name to choose)
	$(WITH_TOOLS) $(CARGO) test -p pps-e2e --locked $(T)

.PHONY: fuzz
fuzz: ## Fuzz the policy and the core, FUZZ_SECONDS for each target (T=name to choose)
	hack/fuzz.sh $(T)

.PHONY: bench
bench: setup ## Measure what it costs, into docs/benchmarks.md (ARGS=growth to choose)
	hack/bench.sh $(ARGS)

.PHONY: setup
setup: control-plane policy.wasm

.PHONY: control-plane
control-plane: ## Prepare the control plane's binaries (once; kept in the user's cache)
	@hack/control-plane.sh >/dev/null

.PHONY: manifest-tools
manifest-tools: ## Prepare kustomize and helm, where there are none (once; kept in the user's cache)
	@hack/manifest-tools.sh >/dev/null

.PHONY: test-tools
test-tools: manifest-tools static-sidecar

.PHONY: programs
programs:
	@hack/build-programs.sh $(PROGRAMS)

# The scripts know better than make what is up to date.
.PHONY: policy.wasm
policy.wasm: ## Build the policy; its metadata is embedded
	@hack/build-wasm.sh

.PHONY: annotated-policy.wasm
annotated-policy.wasm: policy.wasm ## The same, under the name that Kubewarden's tools expect
	@cp policy.wasm annotated-policy.wasm

.PHONY: sidecar
sidecar: ## Build the sidecar: target/release/pps-sidecar
	$(CARGO) build --release --locked -p pps-sidecar

.PHONY: static-sidecar
static-sidecar: ## Build the sidecar as it is shipped, and print where it is
	@hack/build-sidecar.sh

.PHONY: publish
publish: policy.wasm ## Push the policy, the sidecar's image and the chart (REGISTRY=host/path, ARGS=--plain-http)
	@hack/publish.sh "$(REGISTRY)" $(ARGS)

.PHONY: release
release: ## Make all that belongs to a release, in dist/ (TAG=v1.2.3 to hold it against the version)
	@TAG="$(TAG)" hack/release.sh

.PHONY: crd
crd: ## Make deploy/base/crd.yaml from the types, and the chart's copy of it
	UPDATE=1 $(CARGO) test --locked -p pps-crdgen
	UPDATE=1 $(CARGO) test --locked --test metadata

.PHONY: fmt
fmt: ## Format the code
	$(CARGO) fmt --all

.PHONY: lint
lint: ## Check format, lints and dependencies
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	hack/deny.sh

.PHONY: clean
clean: ## Remove what was built; the control plane stays in the user's cache
	rm -rf target target-wasm dist policy.wasm annotated-policy.wasm
