#!/usr/bin/env bash
# Writes where released images are and where the repository is into every file that names them.
#
#   hack/set-owner.sh ghcr.io/owner https://github.com/owner/repository   changes Cargo.toml, then all other files
#   hack/set-owner.sh                                                     changes all other files to what Cargo.toml says
#
# The values in Cargo.toml are `repository` in [workspace.package] and `registry` in [workspace.metadata.pps].
# tests/owner.rs fails if a file still names the former owner.
set -euo pipefail
. "$(dirname "$0")/common.sh"
cd "$REPO_DIR"
# What the files name now: these two always name both.
OLD_REGISTRY="$(sed -n 's|^ *image: *\(.*\)/persistent-pod-state-sidecar:.*|\1|p' deploy/base/deployment.yaml)"
OLD_REPOSITORY="$(sed -n 's/^home: *//p' charts/persistent-pod-state/Chart.yaml)"
[ -n "$OLD_REGISTRY" ] && [ -n "$OLD_REPOSITORY" ] \
    || die "deploy/base/deployment.yaml has no image of the sidecar, or charts/persistent-pod-state/Chart.yaml has no home"

case $# in
0) ;;
2)
    [[ "$1" =~ ^[a-z0-9.-]+(:[0-9]+)?(/[a-z0-9._-]+)*$ && "$1" == *[.:]* ]] \
        || die "$1 is not a registry with a path in lower case: use a name such as ghcr.io/owner"
    [[ "$2" =~ ^https://[A-Za-z0-9.-]+(/[A-Za-z0-9._-]+)+$ ]] \
        || die "$2 is not the URL of a repository: use one such as https://github.com/owner/repository"
    sed -i "s|^registry = \".*\"|registry = \"$1\"|; s|^repository = \".*\"|repository = \"$2\"|" Cargo.toml
    ;;
*) die "pass the registry and the repository, or nothing" ;;
esac

# replace OLD NEW: in all files but Cargo.toml and the changelog, which is history.
replace() {
    local old=$1 new=$2 pattern
    [ "$old" != "$new" ] || return 0
    pattern="${old//./\\.}([^A-Za-z0-9_-]|\$)"
    grep -rlIE --exclude-dir=target --exclude-dir='target-*' --exclude-dir=dist --exclude-dir=.git \
        --exclude=Cargo.toml --exclude=CHANGELOG.md "$pattern" . | while IFS= read -r file; do
        sed -i -E "s#$pattern#$new\\1#g" "$file"
        say "$file names $new"
    done
}
replace "$OLD_REPOSITORY" "$(owner_repository)"
replace "$OLD_REGISTRY" "$(owner_registry)"
# The owner is the first part of the repository's path.
sed -i -E "s|@[^/]+/|@$(owner_repository | cut -d/ -f4)/|" .github/CODEOWNERS
