#!/usr/bin/env bash
# Builds the sidecar without optimisation as one static file, for the images that tests push and run, and prints its path.
# It shares all dependencies with the programs that `make test` builds, so it takes seconds. Its C library is glibc, which
# cannot look up names everywhere; releases have musl (hack/build-release.sh).
set -euo pipefail
. "$(dirname "$0")/common.sh"
cd "$REPO_DIR"
TARGET_DIR="${CARGO_TARGET_DIR:-target}"
with_cargo
have cc && [ -e "$(cc -print-file-name=libc.a)" ] || need_packages gcc libc6-dev
# Selects the whole workspace, as `make test` does, because cargo chooses the features of dependencies by what is selected.
# Cargo links the result to debug/pps-sidecar, where the next build of the programs puts the dynamic one again.
step "build the static sidecar for the tests" env RUSTC_WORKSPACE_WRAPPER="$REPO_DIR/hack/rustc-static.sh" \
    "$CARGO" build --locked --workspace --bin pps-sidecar
mkdir -p "$TARGET_DIR/debug/static"
cmp -s "$TARGET_DIR/debug/pps-sidecar" "$TARGET_DIR/debug/static/pps-sidecar" \
    || install -m 755 "$TARGET_DIR/debug/pps-sidecar" "$TARGET_DIR/debug/static/pps-sidecar"
realpath "$TARGET_DIR/debug/static/pps-sidecar"
