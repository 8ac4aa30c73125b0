#!/usr/bin/env bash
# Pushes the policy and the sidecar's image, each with its software bill of materials, and the Helm chart to a
# registry. Prints the three immutable references.
#
#   hack/publish.sh registry.example.com/pps        as the manifests name them
#   hack/publish.sh 127.0.0.1:5000 --plain-http     to a registry without TLS; see pps-publish policy --help
set -euo pipefail
. "$(dirname "$0")/common.sh"
cd "$REPO_DIR"
REGISTRY="${1:-}"
[ -n "$REGISTRY" ] || die "no registry given: run make publish REGISTRY=registry.example.com/path"
shift
REGISTRY="${REGISTRY%/}"
MODULE="${PPS_POLICY_WASM:-policy.wasm}"
[ -f "$MODULE" ] || die "$MODULE is missing: run make policy.wasm"
with_cargo
export CARGO
SIDECAR="$(hack/build-sidecar.sh)"
step "build pps-publish" "$CARGO" build --locked --workspace --bin pps-publish
PUBLISH="${CARGO_TARGET_DIR:-target}/debug/pps-publish"
VERSION="$("$PUBLISH" --version | cut -d' ' -f2)"
"$PUBLISH" policy --module "$MODULE" "$REGISTRY/policies/persistent-pod-state:v$VERSION" "$@"
"$PUBLISH" image --binary "$SIDECAR" "$REGISTRY/persistent-pod-state-sidecar:v$VERSION" "$@"
CHART="$(hack/pack-chart.sh "${CARGO_TARGET_DIR:-target}/charts")"
# Helm finds a chart by its version.
"$PUBLISH" chart --package "$CHART" "$REGISTRY/charts/persistent-pod-state:$VERSION" "$@"
