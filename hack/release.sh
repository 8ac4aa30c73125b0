#!/usr/bin/env bash
# Makes all that belongs to a release, into dist/. TAG=v1.2.3 must then be the version of Cargo.toml.
#
#   policy.wasm                           the policy
#   pps-sidecar-linux-<arch>              the sidecar, static
#   *.cdx.json                            what each of the two is made of (CycloneDX)
#   install.yaml, install-<overlay>.yaml  the manifests of deploy/, rendered
#   persistent-pod-state-<version>.tgz    the Helm chart
#   RELEASE_NOTES.md                      the section of CHANGELOG.md
#   SHA256SUMS                            of all of these
set -euo pipefail
. "$(dirname "$0")/common.sh"
cd "$REPO_DIR"

VERSION="$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)"
DIST="$REPO_DIR/dist"

if [ -n "${TAG:-}" ] && [ "$TAG" != "v$VERSION" ]; then
    die "the tag is $TAG, and the version in Cargo.toml is $VERSION: tag v$VERSION, or change the version and run UPDATE=1 make version"
fi

# notes: the section of this version, or else what is not released yet.
notes() {
    awk -v version="$VERSION" '
        /^## / { keep = ($2 == "[" version "]" || $2 == version); if (keep) found = 1 }
        keep && !/^## / { print }
        END { exit !found }
    ' CHANGELOG.md || {
        [ -z "${TAG:-}" ] || die "CHANGELOG.md has no section $VERSION: name what is unreleased \"## $VERSION - $(date -u +%F)\""
        awk '/^## / { keep = ($2 == "Unreleased") } keep && !/^## / { print }' CHANGELOG.md
    }
}
