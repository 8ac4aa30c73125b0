#!/usr/bin/env bash
# Rehearses a release: clones HEAD, gives the clone the version as a maintainer would, and does there what precedes a push
# (hack/tested-release.sh). The tests push to a registry of their own.
#
#   hack/rehearsal.sh v1.2.3-rc.1
set -euo pipefail
. "$(dirname "$0")/common.sh"
TAG="${1:-}"
[[ "$TAG" == v* ]] || die "no tag given: run make rehearsal TAG=v1.2.3-rc.1"
[ -z "$(git -C "$REPO_DIR" status --porcelain)" ] || say "the rehearsal is of the last commit: what is not committed is left out"
# Not below the checkout: there cargo would read the checkout's .cargo/config.toml as well.
CLONE="$(mktemp -d "${TMPDIR:-/tmp}/pps-rehearsal.XXXXXX")"
say "the rehearsal is in $CLONE, which stays"
git clone --quiet --no-hardlinks "$REPO_DIR" "$CLONE"
cd "$CLONE"
if [ "v$(REPO_DIR="$CLONE" project_version)" != "$TAG" ]; then
    hack/set-version.sh "${TAG#v}"
    git -c user.name=rehearsal -c user.email=rehearsal@localhost commit --quiet --all --message "Release ${TAG#v}"
fi
git tag --force "$TAG" >/dev/null
TAG="$TAG" WINDOWS="${WINDOWS-1}" hack/tested-release.sh
say "the files are in $CLONE/dist"
