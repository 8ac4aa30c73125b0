#!/usr/bin/env bash
# Builds all files of a release in dist/, or in the folder that DIST names:
#
#   policy.wasm                           the policy
#   pps-sidecar-linux-<arch>              the sidecar, one static file, for amd64 and arm64
#   policy-sbom.cdx.json, pps-sidecar-linux-<arch>-sbom.cdx.json, kubectl-pps-<os>-<arch>-sbom.cdx.json
#                                         software bills of materials (CycloneDX)
#   kubectl-pps-<version>-<os>-<arch>.tar.gz
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
# PLUGINS=FOLDER        builds of the plugin that other machines have made: kubectl-pps-darwin-amd64 and -arm64.
# PPS_POLICY_WASM, PPS_STATIC_SIDECAR, PPS_FOREIGN_SIDECAR, PPS_STATIC_PLUGIN and PPS_FOREIGN_PLUGIN name files, as elsewhere.
set -euo pipefail
. "$(dirname "$0")/common.sh"
cd "$REPO_DIR"

VERSION="$(project_version)"
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
declare -A SIDECARS PLUGINS_BUILT
for arch in ${ARCH:-amd64 arm64}; do
    SIDECARS[$arch]="$(hack/build-release.sh pps-sidecar "linux-$arch")"
    for os in linux ${WINDOWS:+windows}; do
        PLUGINS_BUILT[$os-$arch]="$(hack/build-release.sh kubectl-pps "$os-$arch")"
    done
done
for file in ${PLUGINS:+"$PLUGINS"/kubectl-pps-*}; do
    [ -f "$file" ] || die "PLUGINS=$PLUGINS has no build of the plugin, such as kubectl-pps-darwin-arm64"
    PLUGINS_BUILT[${file##*/kubectl-pps-}]="$file"
done
KUSTOMIZE="$(hack/programs.sh publish)/kustomize"

rm -rf "$DIST"
mkdir -p "$DIST"

install -m 644 "$MODULE" "$DIST/policy.wasm"
hack/sbom.sh wasm32-unknown-unknown "persistent-pod-state-policy=$DIST/policy-sbom.cdx.json"
for arch in "${!SIDECARS[@]}"; do install -m 755 "${SIDECARS[$arch]}" "$DIST/pps-sidecar-linux-$arch"; done
for platform in "${!PLUGINS_BUILT[@]}"; do
    hack/pack-kubectl-pps.sh "${PLUGINS_BUILT[$platform]}" "$platform" "$DIST" >/dev/null
    SBOMS=("kubectl-pps=$DIST/kubectl-pps-$platform-sbom.cdx.json")
    [[ $platform != linux-* ]] || SBOMS+=("pps-sidecar=$DIST/pps-sidecar-$platform-sbom.cdx.json")
    hack/sbom.sh "$(rust_target "$platform")" "${SBOMS[@]}"
done
hack/pack-kubectl-pps.sh --krew "$DIST" >/dev/null
"$KUSTOMIZE" build deploy >"$DIST/install.yaml"
for overlay in deploy/overlays/*/; do
    "$KUSTOMIZE" build "$overlay" >"$DIST/install-$(basename "$overlay").yaml"
done
pack_chart "$DIST" >/dev/null
install -m 644 artifacthub-pkg.yml artifacthub-repo.yml README.md "$DIST"
section "$HEADING" >"$DIST/RELEASE_NOTES.md"
(cd "$DIST" && sha256sum -- * >SHA256SUMS.new && mv SHA256SUMS.new SHA256SUMS)
say "built in $DIST:"
ls -l "$DIST" >&2
