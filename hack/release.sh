#!/usr/bin/env bash
# Builds all files of a release in dist/, or in the folder that DIST names:
#
#   policy.wasm                           the policy
#   pps-sidecar-linux-<arch>              the sidecar, one static file
#   policy.cdx.json, pps-sidecar.cdx.json their software bills of materials (CycloneDX)
#   install.yaml, install-<overlay>.yaml  the manifests of deploy/, rendered
#   persistent-pod-state-<version>.tgz    the Helm chart
#   RELEASE_NOTES.md                      this version's section of CHANGELOG.md
#   SHA256SUMS                            the digests of all these files
#
# TAG=v1.2.3            the tag of the release. It must match the version in Cargo.toml, and CHANGELOG.md must have a
#                       section for it.
# PPS_PUBLISH=PROGRAM   use this pps-publish. PPS_POLICY_WASM and PPS_STATIC_SIDECAR name files, as elsewhere.
set -euo pipefail
. "$(dirname "$0")/common.sh"
cd "$REPO_DIR"

VERSION="$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)"
DIST="${DIST:-$REPO_DIR/dist}"

# section NAME: prints what CHANGELOG.md has under that heading; fails if there is no such heading.
section() {
    awk -v name="$1" '
        /^## / { keep = ($2 == name || $2 == "[" name "]"); found = found || keep; next }
        keep { print }
        END { exit !found }
    ' CHANGELOG.md
}

if [ -n "${TAG:-}" ]; then
    [ "$TAG" = "v$VERSION" ] || die "the tag is $TAG, but the version in Cargo.toml is $VERSION: tag v$VERSION, or change the version there and run \"UPDATE=1 cargo test --test metadata\""
    section "$VERSION" >/dev/null || die "CHANGELOG.md has no section \"## $VERSION\": rename the heading \"## Unreleased\" to that"
    HEADING="$VERSION"
else
    HEADING="$(section "$VERSION" >/dev/null && echo "$VERSION" || echo Unreleased)"
fi

[ -n "${PPS_POLICY_WASM:-}" ] || hack/build-wasm.sh
MODULE="${PPS_POLICY_WASM:-policy.wasm}"
SIDECAR="$(hack/build-sidecar.sh)"
if [ -z "${PPS_PUBLISH:-}" ]; then
    with_cargo
    export CARGO
    step "build pps-publish" "$CARGO" build --locked --workspace --bin pps-publish
    PPS_PUBLISH="${CARGO_TARGET_DIR:-target}/debug/pps-publish"
fi
KUSTOMIZE="$(hack/manifest-tools.sh)/kustomize"

rm -rf "$DIST"
mkdir -p "$DIST"
install -m 644 "$MODULE" "$DIST/policy.wasm"
install -m 755 "$SIDECAR" "$DIST/pps-sidecar-linux-$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')"
"$PPS_PUBLISH" sbom policy --module "$MODULE" --output "$DIST/policy.cdx.json"
"$PPS_PUBLISH" sbom image --binary "$SIDECAR" --output "$DIST/pps-sidecar.cdx.json"
"$KUSTOMIZE" build deploy >"$DIST/install.yaml"
for overlay in deploy/overlays/*/; do
    "$KUSTOMIZE" build "$overlay" >"$DIST/install-$(basename "$overlay").yaml"
done
hack/pack-chart.sh "$DIST" >/dev/null
section "$HEADING" >"$DIST/RELEASE_NOTES.md"
(cd "$DIST" && sha256sum -- * >SHA256SUMS.new && mv SHA256SUMS.new SHA256SUMS)
say "built in $DIST:"
ls -l "$DIST" >&2
