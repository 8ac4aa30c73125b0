#!/usr/bin/env bash
# Builds the site in target/site: the documents with search, and the playground. Prints how to open it.
#
# REVISION=v1.2.3       the branch, tag or commit to which links to other files of the repository lead. The default is HEAD.
# VERSIONS="v0.2.0 v0.1.0"   older tags whose documents stay on the site. The default is the newest release of each other minor version
#                       that the checkout has a tag of; `none` for none.
# REPOSITORY=URL        the repository on the Git host. The default is what Cargo.toml says.
set -euo pipefail
. "$(dirname "$0")/common.sh"
cd "$REPO_DIR"
SITE=target/site
REVISION="${REVISION:-HEAD}"
# Older ones are on the Git host.
MOST_VERSIONS=10
BUILT="${CARGO_TARGET_DIR:-target}/debug"
hack/build-playground.sh
hack/build-programs.sh --workspace --bin pps-site --bin pps-web

NAME=main
[[ $REVISION != v[0-9]* ]] || NAME=$REVISION
# older_releases: prints the newest release of each minor version, without that of this version.
older_releases() {
    git tag --list 'v*' --sort=-version:refname | grep -E '^v[0-9]+\.[0-9]+\.[0-9]+$' |
        awk -F. -v this="$NAME" 'BEGIN {split(this, part, "."); seen[part[1] "." part[2]]} !(($1 "." $2) in seen) {seen[$1 "." $2]; print}' |
        head -n "$MOST_VERSIONS"
}
VERSIONS="${VERSIONS:-$(older_releases || true)}"
[ "$VERSIONS" != none ] || VERSIONS=
WORK="$(mktemp -d)"
trap 'explain_end $?; rm -rf "$WORK"' EXIT
OLDER=()
for version in $VERSIONS; do
    git rev-parse --quiet --verify "refs/tags/$version" >/dev/null || die "VERSIONS names $version: there is no such tag; git fetch --tags may bring it"
    mkdir "$WORK/$version"
    git archive "refs/tags/$version" | tar -x -C "$WORK/$version"
    OLDER+=(--older "$version=$WORK/$version")
done
"$BUILT/pps-site" --output "$SITE" --playground target/playground --version-name "$NAME" "${OLDER[@]}" \
    --repository "${REPOSITORY:-$(owner_repository)}" --revision "$REVISION"
say "built in $SITE. To look at it: $BUILT/pps-web serve $SITE"
