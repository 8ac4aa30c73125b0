#!/usr/bin/env bash
# Rehearses a release: does all of it that precedes a push, and prints what was verified.
# - builds all files in dist/ (hack/release.sh, whose variables say what), and what is quick to build once more, to compare digests
# - tests images and installation with these files, on real nodes, and the build for the other processor under an emulator; the
#   tests push to a registry of their own
# - builds the site of the tag
#
#   hack/rehearsal.sh v1.2.3-rc.1      in a clone of HEAD, which gets the version as a maintainer would give it
#   hack/rehearsal.sh --here [v1.2.3]  in this checkout, as the release workflow does
set -euo pipefail
. "$(dirname "$0")/common.sh"
cd "$REPO_DIR"
if [ "${1:-}" != --here ]; then
    export TAG="${1:-}" WINDOWS="${WINDOWS-1}"
    [[ "$TAG" == v* ]] || die "no tag given: run make rehearsal TAG=v1.2.3-rc.1"
    [ -z "$(git status --porcelain)" ] || say "the rehearsal is of the last commit: what is not committed is left out"
    # Not below the checkout: there cargo would read the checkout's .cargo/config.toml as well.
    CLONE="$(mktemp -d "${TMPDIR:-/tmp}/pps-rehearsal.XXXXXX")"
    say "the rehearsal is in $CLONE, which stays"
    git clone --quiet --no-hardlinks . "$CLONE"
    cd "$CLONE"
    if [ "v$(REPO_DIR="$CLONE" project_version)" != "$TAG" ]; then
        hack/set-version.sh "${TAG#v}"
        git -c user.name=rehearsal -c user.email=rehearsal@localhost commit --quiet --all --message "Release ${TAG#v}"
    fi
    git tag --force "$TAG" >/dev/null
    exec hack/rehearsal.sh --here "$TAG"
fi
export TAG="${2:-}"
WORK="$(mktemp -d "${TMPDIR:-/tmp}/pps-release.XXXXXX")"
trap 'explain_end $?; rm -rf "$WORK"' EXIT
VERIFIED="$WORK/verified"
verified() { echo "verified: $*" | tee -a "$VERIFIED" >&2; }

DIST="$REPO_DIR/dist"
hack/release.sh
verified "dist/ has $(wc -l <"$DIST/SHA256SUMS") files, with their digests"
rm -rf target-wasm/wasm32-unknown-unknown policy.wasm
DIST="$WORK/again" hack/release.sh
diff "$DIST/SHA256SUMS" "$WORK/again/SHA256SUMS" >&2 || die "a second build has other digests"
verified "policy, SBOMs, archives, krew's manifest, manifests and chart, built again, have the same digests"

# The tests push and install these files, and make small releases of their own.
unset MAKEFLAGS WINDOWS PLUGINS ARCH
PPS_STATIC_SIDECAR="$DIST/pps-sidecar-linux-$(native_arch)" PPS_FOREIGN_SIDECAR="$DIST/pps-sidecar-linux-$(foreign_arch)"
export PPS_STATIC_SIDECAR PPS_FOREIGN_SIDECAR PPS_POLICY_WASM="$DIST/policy.wasm" PPS_RELEASE_DIR="$DIST"
make --no-print-directory release-tests 2>&1 | tee "$WORK/tests" >&2
sed -n 's/^ *\(\(verified\|skipped\): \)/\1/p' "$WORK/tests" >>"$VERIFIED"
verified "the tests of images, installation and release pass; the sidecar for $(foreign_arch) runs under an emulator"

make --no-print-directory site REVISION="${TAG:-HEAD}" REPOSITORY="${REPOSITORY:-}" >&2
verified "the site's links and anchors lead somewhere"

say "version $(project_version), commit $(git rev-parse --short HEAD), files in $DIST:"
cat "$VERIFIED"
