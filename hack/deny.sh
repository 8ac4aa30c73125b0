#!/usr/bin/env bash
# Checks the dependencies with cargo-deny: licences, sources, and that there is one kube and one k8s-openapi.
# Without access to the advisory database it skips the advisories and says so.
set -euo pipefail
. "$(dirname "$0")/common.sh"
cd "$REPO_DIR"
with_cargo
VERSION=0.20.2
TOOL="$CACHE_DIR/tools/bin/cargo-deny"
if ! "$TOOL" --version 2>/dev/null | grep -q "$VERSION"; then
    step "build cargo-deny $VERSION (once)" "$CARGO" install --quiet --locked --root "$CACHE_DIR/tools" cargo-deny@$VERSION --no-default-features
fi
"$TOOL" --workspace --locked check bans licenses sources
if timeout 60 "$TOOL" --workspace --locked fetch db >/dev/null 2>&1; then
    "$TOOL" --workspace --locked check --disable-fetch advisories
else
    say "the advisory database cannot be fetched: advisories were not checked"
fi
