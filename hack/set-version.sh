#!/usr/bin/env bash
# Writes the version of a release into every file that names it, and gives the changelog's heading "Unreleased" that name.
#
#   hack/set-version.sh 1.2.3    changes Cargo.toml, then all other files
set -euo pipefail
. "$(dirname "$0")/common.sh"
cd "$REPO_DIR"
VERSION="${1:-}"
[[ "$VERSION" =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] || die "\"$VERSION\" is not a version: use one such as 1.2.3 or 1.2.3-rc.1"
sed -i "s/^version = \".*\"/version = \"$VERSION\"/" Cargo.toml
sed -i "s/^## Unreleased\$/## $VERSION/" CHANGELOG.md
for manifest in Cargo.toml fuzz/Cargo.toml; do hack/cargo.sh update --quiet --workspace --manifest-path "$manifest"; done
for target in metadata reference; do
    # One after the other: several tests write the chart's README.
    UPDATE=1 step "write the version into other files" hack/cargo.sh test --workspace --locked --test "$target" -- --test-threads=1
done
