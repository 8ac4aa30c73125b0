#!/usr/bin/env bash
# Pushes the policy and the sidecar's image, each with its software bill of materials, and the Helm chart to a
# registry. Prints the three immutable references.
#
#   hack/publish.sh registry.example.com/pps        as the manifests name them
#   hack/publish.sh 127.0.0.1:5000 --plain-http     to a registry without TLS; see pps-publish policy --help
#
# ARCH="amd64 arm64"   the processors for which the sidecar's image is; both by default. With one, the image has no index.
set -euo pipefail
. "$(dirname "$0")/common.sh"
cd "$REPO_DIR"
REGISTRY="${1:-}"
[ -n "$REGISTRY" ] || die "no registry given: run make publish REGISTRY=registry.example.com/path"
shift
REGISTRY="${REGISTRY%/}"
MODULE="${PPS_POLICY_WASM:-policy.wasm}"
[ -f "$MODULE" ] || die "$MODULE is missing: run make policy.wasm"
BINARIES=()
for arch in ${ARCH:-amd64 arm64}; do
    file="$(hack/build-release.sh pps-sidecar "linux-$arch")"
    BINARIES+=(--binary "$file")
done
with_publish
VERSION="$("$PUBLISH" --version | cut -d' ' -f2)"
"$PUBLISH" policy --module "$MODULE" "$REGISTRY/policies/persistent-pod-state:v$VERSION" "$@"
"$PUBLISH" image "${BINARIES[@]}" "$REGISTRY/persistent-pod-state-sidecar:v$VERSION" "$@"
CHART="$(hack/pack-chart.sh "${CARGO_TARGET_DIR:-target}/charts")"
# Helm finds a chart by its version.
"$PUBLISH" chart --package "$CHART" "$REGISTRY/charts/persistent-pod-state:$VERSION" "$@"
