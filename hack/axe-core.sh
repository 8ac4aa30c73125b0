#!/usr/bin/env bash
# Prints the folder of axe-core, the accessibility checker that the tests in a browser use. Installs it if it is missing.
set -euo pipefail
. "$(dirname "$0")/common.sh"

PACKAGES="$REPO_DIR/e2e-tests/tests/browser"
# Another checkout may pin another version.
TARGET="$CACHE_DIR/axe-core-$(sha256sum <"$PACKAGES/package-lock.json" | head -c 12)"

prepare() {
    # Another process may have done it while this one waited.
    [ ! -d "$TARGET" ] || return 0
    have npm || need_packages npm
    rm -rf "$TARGET.new"
    mkdir -p "$TARGET.new"
    cp "$PACKAGES/package.json" "$PACKAGES/package-lock.json" "$TARGET.new"
    # NODE_ENV=production would leave out what only tests use.
    step "install axe-core" npm ci --prefix "$TARGET.new" --include=dev --ignore-scripts --no-audit --no-fund
    mv -T "$TARGET.new" "$TARGET"
}

[ -d "$TARGET" ] || with_lock "accessibility checker" prepare >&2
echo "$TARGET/node_modules/axe-core"
