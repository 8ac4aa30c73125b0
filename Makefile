# What developers and CI run. Each target prepares what it needs; `make help` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

CARGO := hack/cargo.sh
# Cargo chooses the features of dependencies by the packages that are selected. Every target selects the whole
# workspace, so that no dependency is compiled twice, and names what it needs of it.
BUILD := hack/build-programs.sh --workspace
TEST := $(CARGO) test --workspace --locked
TEST_PROGRAMS := --bin pps-sidecar --bin pps-e2e-supervise --bin kubectl-pps
E2E_TESTS := --test e2e --test sessions
# Only those of the site need a browser.
NOT_OF_THE_SITE = $(if $(findstring browser::,$(T)),$(error run make site-tests T=...))$(T) $(if $(filter --,$(T)),,--) --skip browser::
# They start no clusters, and some only wait: more of them than .cargo/config.toml says may run at once.
UNIT_TESTS := --lib --bins $(patsubst %.rs,--test %,$(notdir $(wildcard tests/*.rs crates/*/tests/*.rs)))
# The version of Kubernetes, or a folder with its programs (hack/programs.sh); programs and CRDs of others, where they are
# available.
export KUBERNETES KUBEBUILDER_ASSETS KWCTL POLICY_SERVER KUBEWARDEN_CRDS KUBEWARDEN_CONTROLLER KUBEWARDEN_CHARTS CALICO_CNI

# The static sidecar, linked from what `--lib` built.
WITH_SIDECAR = PPS_STATIC_SIDECAR="$${PPS_STATIC_SIDECAR:-$$(hack/link-test-sidecar.sh)}" && export PPS_STATIC_SIDECAR &&

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9.-]+:.*## / {printf "  %-24s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: setup ## Show what the product does, on a real control plane (ARGS=--keep to look around)
	@$(BUILD) --bin pps-sidecar --bin pps-e2e-supervise --bin kubectl-pps --bin pps-demo
	@"$${CARGO_TARGET_DIR:-target}/debug/pps-demo" $(ARGS)

.PHONY: check
check: ## Check format, lints and unit tests: what needs no control plane and no Wasm
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUST_TEST_THREADS=16 $(TEST) $(UNIT_TESTS)

.PHONY: test
test: setup test-programs jq ## Run all tests but those of the site: units, properties, and scenarios on a real control plane (KUBERNETES=1.34)
	@$(BUILD) --lib $(TEST_PROGRAMS) --tests
	$(WITH_SIDECAR) $(TEST) $(NOT_OF_THE_SITE)

.PHONY: unit-tests
unit-tests: ## Run the tests that need no control plane and no Wasm (T=name to choose)
	RUST_TEST_THREADS=16 $(TEST) $(UNIT_TESTS) $(T)

.PHONY: e2e-tests
e2e-tests: setup test-programs jq ## Run the tests that need a control plane or the policy's Wasm (T=name to choose, KUBERNETES=1.34)
	@$(BUILD) --lib $(TEST_PROGRAMS) $(E2E_TESTS)
	$(WITH_SIDECAR) $(TEST) $(E2E_TESTS) $(NOT_OF_THE_SITE)

.PHONY: site-tests
site-tests: browser ## Test the site and the playground in a browser (T=name to choose)
	@hack/build-playground.sh
	@$(BUILD) $(TEST_PROGRAMS) $(E2E_TESTS)
	$(TEST) --test e2e $(or $(T),browser::)

.PHONY: release-tests
release-tests: ## Run the tests of images, installation and release with release builds for both processors, one emulated
	PPS_STATIC_SIDECAR="$$(hack/build-release.sh pps-sidecar)" && PPS_FOREIGN_SIDECAR="$$(hack/build-release.sh pps-sidecar foreign)" && \
	PPS_STATIC_PLUGIN="$$(hack/build-release.sh kubectl-pps)" && PPS_EMULATOR="$$(hack/emulator.sh)" && \
	export PPS_STATIC_SIDECAR PPS_FOREIGN_SIDECAR PPS_STATIC_PLUGIN PPS_EMULATOR && \
		$(MAKE) --no-print-directory e2e-tests T='-- registry:: install:: a_year_on_real_nodes:: release:: rehearsal::'

.PHONY: emulated-tests
emulated-tests: ## Run the sidecar's release build for the other processor (amd64 or arm64) under an emulator
	PPS_FOREIGN_SIDECAR="$$(hack/build-release.sh pps-sidecar foreign)" && PPS_EMULATOR="$$(hack/emulator.sh)" && \
		export PPS_FOREIGN_SIDECAR PPS_EMULATOR && $(MAKE) --no-print-directory e2e-tests T='-- registry::platforms::'

.PHONY: conformance
conformance: ## Show that the product works on the cluster of your kubeconfig, and remove it again (REGISTRY=host/path, NODE=name to drain)
	@REGISTRY="$(REGISTRY)" VALUES="$(VALUES)" CONTEXT="$(CONTEXT)" NODE="$(NODE)" IMAGE="$(IMAGE)" PATIENCE="$(PATIENCE)" YES="$(YES)" \
		hack/conformance.sh $(ARGS)

.PHONY: fuzz
fuzz: ## Fuzz the policy, the core and what the sidecar watches, FUZZ_SECONDS for each target (T=name to choose)
	hack/fuzz.sh $(T)

.PHONY: long-run
long-run: ## Let the recorder live through simulated days (DAYS=7)
	PPS_LONG_RUN_DAYS=$(or $(DAYS),7) $(TEST) --test interleavings long_run -- --nocapture

.PHONY: long-run-on-real-nodes
long-run-on-real-nodes: ## Let an installation live through random faults on real nodes, as root (MINUTES=60)
	PPS_LONG_RUN_MINUTES=$(or $(MINUTES),60) $(MAKE) --no-print-directory e2e-tests T='-- a_year_on_real_nodes::long_run::'

.PHONY: bench
bench: setup ## Measure the costs and write docs/benchmarks.md (ARGS=policy to choose)
	hack/bench.sh $(ARGS)

.PHONY: site
site: ## Build the site in target/site: the documents with search, and the playground (REVISION=tag, VERSIONS="older tags")
	@REVISION="$(REVISION)" REPOSITORY="$(REPOSITORY)" VERSIONS="$(VERSIONS)" hack/site.sh

.PHONY: playground-picture
playground-picture: ## Draw a state of the playground in docs/images/playground.png
	UPDATE=1 $(MAKE) --no-print-directory site-tests T=browser::page::picture::

.PHONY: terminal-picture
terminal-picture: setup ## Play a session of kubectl pps on a real control plane, and draw it in docs/images/kubectl-pps.svg
	@$(BUILD) $(TEST_PROGRAMS) --test e2e
	UPDATE=1 PPS_E2E_ONLY=picture:: $(TEST) --test e2e -- kubectl_pps::commands

.PHONY: demo-picture
demo-picture: setup ## Record the demo, as root, and draw it as an animation in docs/images/demo.svg
	@$(BUILD) --bin pps-sidecar --bin pps-e2e-supervise --bin kubectl-pps --bin pps-demo
	@hack/demo-picture.sh "$${CARGO_TARGET_DIR:-target}/debug/pps-demo"

.PHONY: setup
setup: control-plane policy.wasm

.PHONY: control-plane
control-plane: ## Prepare Kubernetes, etcd and what nodes need (once; they stay in the user's cache)
	@hack/programs.sh kubernetes >/dev/null
	@hack/system-parts.sh >/dev/null

.PHONY: test-programs
test-programs: ## Prepare the other programs of the tests: a registry, and what publishes and signs (likewise)
	@for group in tests publish sign; do hack/programs.sh $$group >/dev/null; done
	@. hack/common.sh && { have buildah || need_packages buildah; }

.PHONY: jq
jq:
	@. hack/common.sh && { have jq || need_packages jq; }

.PHONY: browser
browser:
	@. hack/common.sh && need_browser
	@hack/axe-core.sh >/dev/null

# The scripts decide what is up to date.
.PHONY: policy.wasm
policy.wasm: ## Build the policy, with its metadata embedded
	@hack/build-wasm.sh

.PHONY: annotated-policy.wasm
annotated-policy.wasm: policy.wasm ## Build the policy under the name that Kubewarden's tools expect
	@cp policy.wasm annotated-policy.wasm

.PHONY: playground
playground: ## Build the playground: target/playground
	@hack/build-playground.sh
	@. hack/common.sh && say "to look at it: make serve-playground (a browser loads no modules from file://)"

.PHONY: serve-playground
serve-playground: ## Build the playground and show it to browsers on this machine (PORT=8080)
	@hack/build-playground.sh
	@$(BUILD) --bin pps-web
	@"$${CARGO_TARGET_DIR:-target}/debug/pps-web" serve target/playground --port $(or $(PORT),8080)

.PHONY: sidecar
sidecar: ## Build the sidecar: target/release/pps-sidecar
	$(CARGO) build --release --locked -p pps-sidecar

.PHONY: static-sidecar
static-sidecar: ## Build the sidecar's static release build, and print its path (ARCH=arm64)
	@hack/build-release.sh pps-sidecar $(if $(ARCH),linux-$(ARCH))

.PHONY: kubectl-pps
kubectl-pps: ## Build the plugin kubectl pps as one file, and print its path (PLATFORM=linux-arm64)
	@hack/build-release.sh kubectl-pps $(PLATFORM)

.PHONY: publish
publish: policy.wasm ## Push the policy, the sidecar's image and the chart (REGISTRY=host/path, ARCH=amd64, ARGS="--ca-file ca.crt" or --plain-http)
	@ARCH="$(ARCH)" REVISION="$(REVISION)" hack/publish.sh "$(REGISTRY)" $(ARGS)

.PHONY: manifests
manifests: ## Print the manifests with the images that were pushed, by digest (REGISTRY=host/path, OVERLAY=monitoring)
	@OVERLAY="$(OVERLAY)" hack/manifests.sh "$(REGISTRY)" $(ARGS)

.PHONY: chart-values
chart-values: ## Print the chart's values for the images that were pushed, by digest (REGISTRY=host/path)
	@hack/manifests.sh --values "$(REGISTRY)" $(ARGS)

.PHONY: release
release: ## Build all files of a release in dist/ (TAG=v1.2.3 to check the tag; REGISTRY and REPOSITORY of the owner)
	@TAG="$(TAG)" REGISTRY="$(REGISTRY)" REPOSITORY="$(REPOSITORY)" ARCH="$(ARCH)" WINDOWS="$(WINDOWS)" PLUGINS="$(PLUGINS)" hack/release.sh

.PHONY: tested-release
tested-release: ## Do all of a release that precedes a push, and print what was verified (with the variables of release)
	@REGISTRY="$(REGISTRY)" REPOSITORY="$(REPOSITORY)" WINDOWS="$(WINDOWS)" PLUGINS="$(PLUGINS)" hack/rehearsal.sh --here "$(TAG)"

.PHONY: rehearsal
rehearsal: ## Rehearse a release in a clone of the last commit: build, test and install it on real nodes (TAG=v1.2.3-rc.1)
	@hack/rehearsal.sh "$(TAG)"

.PHONY: version
version: ## Write the version of a release into all files that name it (VERSION=1.2.3)
	@hack/set-version.sh "$(VERSION)"

.PHONY: crd
crd: ## Generate deploy/base/crd.yaml from the types, the chart's copy, and the reference of the API
	UPDATE=1 $(TEST) --test definition --test api_reference
	UPDATE=1 $(TEST) --test metadata

.PHONY: fmt
fmt: ## Format the code
	$(CARGO) fmt --all

.PHONY: lint
lint: ## Check format, lints, dependencies, workflows and the types of the playground's JavaScript
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	hack/deny.sh
	hack/lint.sh

.PHONY: clean
clean: ## Remove all build results; the control plane stays in the user's cache
	rm -rf target target-wasm dist policy.wasm annotated-policy.wasm
