#!/usr/bin/env bash
# Builds all files of a release in dist/, or in the folder that DIST names:
#
#   policy.wasm                           the policy
#   pps-sidecar-linux-<arch>              the sidecar, one static file, for amd64 and arm64
#   policy-sbom.spdx.json, pps-sidecar-linux-<arch>-sbom.spdx.json, kubectl-pps-<os>-<arch>-sbom.spdx.json
#                                         software bills of materials (SPDX)
#   kubectl-pps-<version>-<os>-<arch>.tar.gz (.zip for Windows)
#                                         the plugin with its man page and the licence
#   pps.yaml                              the plugin's manifest for krew
#   install.yaml, install-<overlay>.yaml  the manifests of deploy/, rendered
#   persistent-pod-state-<version>.tgz    the Helm chart
#   artifacthub-pkg.yml, artifacthub-repo.yml, README.md
#                                         the policy's page on https://artifacthub.io
#   RELEASE_NOTES.md                      this version's section of CHANGELOG.md
#   SHA256SUMS                            the digests of all these files
#
# TAG=v1.2.3            the tag of the release. It must match the version in Cargo.toml, and CHANGELOG.md must have a
#                       section for it.
# REGISTRY=ghcr.io/owner, REPOSITORY=https://github.com/owner/repository
#                       where the images and the repository are. If Cargo.toml says something else, all files of the
#                       checkout that name them are changed (hack/set-owner.sh), so that what is released names them.
# ARCH="amd64 arm64"    the processors; both by default.
# WINDOWS=1             build the plugin for Windows on these processors, too.
# PLUGIN_ARCHIVES=FOLDER  archives of the plugin that other machines have made: those for macOS.
# PPS_PUBLISH=PROGRAM   use this pps-publish. PPS_POLICY_WASM, PPS_STATIC_SIDECAR, PPS_FOREIGN_SIDECAR,
#                       PPS_STATIC_PLUGIN and PPS_FOREIGN_PLUGIN name files, as elsewhere.
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
    [ "$TAG" = "v$VERSION" ] || die "the tag is $TAG, but the version in Cargo.toml is $VERSION: tag v$VERSION, or run make version VERSION=${TAG#v}"
    section "$VERSION" >/dev/null || die "CHANGELOG.md has no section \"## $VERSION\": run make version VERSION=$VERSION"
    HEADING="$VERSION"
else
    HEADING="$(section "$VERSION" >/dev/null && echo "$VERSION" || echo Unreleased)"
fi

REGISTRY="${REGISTRY:-$(owner_registry)}" REPOSITORY="${REPOSITORY:-$(owner_repository)}"
if [ "$REGISTRY" != "$(owner_registry)" ] || [ "$REPOSITORY" != "$(owner_repository)" ]; then
    hack/set-owner.sh "$REGISTRY" "$REPOSITORY"
fi

[ -n "${PPS_POLICY_WASM:-}" ] || hack/build-wasm.sh
MODULE="${PPS_POLICY_WASM:-policy.wasm}"
declare -A SIDECARS PLUGINS
for arch in ${ARCH:-amd64 arm64}; do
    SIDECARS[$arch]="$(hack/build-release.sh pps-sidecar "linux-$arch")"
    for os in linux ${WINDOWS:+windows}; do
        PLUGINS[$os-$arch]="$(hack/build-release.sh kubectl-pps "$os-$arch")"
    done
done
with_publish
KUSTOMIZE="$(hack/programs.sh install)/kustomize"

rm -rf "$DIST"
mkdir -p "$DIST"

# sbom PACKAGE TARGET FILE NAME
sbom() { "$PUBLISH" sbom --package "$1" --target "$2" --file "$3" --output "$DIST/$4-sbom.spdx.json"; }

install -m 644 "$MODULE" "$DIST/policy.wasm"
sbom persistent-pod-state-policy wasm32-unknown-unknown "$MODULE" policy
for arch in "${!SIDECARS[@]}"; do
    install -m 755 "${SIDECARS[$arch]}" "$DIST/pps-sidecar-linux-$arch"
    sbom pps-sidecar "$(rust_target "linux-$arch")" "${SIDECARS[$arch]}" "pps-sidecar-linux-$arch"
done
for platform in "${!PLUGINS[@]}"; do
    hack/pack-kubectl-pps.sh "${PLUGINS[$platform]}" "$platform" "$DIST" >/dev/null
done
[ -z "${PLUGIN_ARCHIVES:-}" ] || install -m 644 "$PLUGIN_ARCHIVES"/kubectl-pps-"$VERSION"-* "$DIST"
for archive in "$DIST"/kubectl-pps-"$VERSION"-*; do
    platform="${archive#"$DIST/kubectl-pps-$VERSION-"}" platform="${platform%%.*}"
    sbom kubectl-pps "$(rust_target "$platform")" "$archive" "kubectl-pps-$platform"
done
hack/pack-kubectl-pps.sh --krew "$DIST" >/dev/null
"$KUSTOMIZE" build deploy >"$DIST/install.yaml"
for overlay in deploy/overlays/*/; do
    "$KUSTOMIZE" build "$overlay" >"$DIST/install-$(basename "$overlay").yaml"
done
hack/pack-chart.sh "$DIST" >/dev/null
install -m 644 artifacthub-pkg.yml artifacthub-repo.yml README.md "$DIST"
section "$HEADING" >"$DIST/RELEASE_NOTES.md"
(cd "$DIST" && sha256sum -- * >SHA256SUMS.new && mv SHA256SUMS.new SHA256SUMS)
say "built in $DIST:"
ls -l "$DIST" >&2
