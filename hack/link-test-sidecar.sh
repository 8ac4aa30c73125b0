#!/usr/bin/env bash
# Links the sidecar of the tests, which is not optimised, as one static file for the images that they push and run, and prints its
# path. Its C library is glibc, which cannot look up names everywhere; releases have musl (hack/build-release.sh).
set -euo pipefail
. "$(dirname "$0")/common.sh"
cd "$REPO_DIR"
BUILT="${CARGO_TARGET_DIR:-target}/debug"
# Selects the whole workspace, as `make test` does, because cargo chooses the features of dependencies by what is selected.
hack/build-programs.sh --workspace --lib
with_cargo
[ -e "$(cc -print-file-name=libc.a)" ] || need_packages libc6-dev
mkdir -p "$BUILT/static"
# Not by cargo, which would compile the workspace's crates a second time.
step "link the static sidecar for the tests" "${RUSTC:-rustc}" crates/sidecar/src/main.rs --edition 2024 \
    --crate-name pps_sidecar_static --extern "pps_sidecar=$BUILT/libpps_sidecar.rlib" -L "dependency=$BUILT/deps" \
    -C target-feature=+crt-static -C strip=symbols -o "$BUILT/static/pps-sidecar.$$"
mv "$BUILT/static/pps-sidecar.$$" "$BUILT/static/pps-sidecar"
realpath "$BUILT/static/pps-sidecar"
