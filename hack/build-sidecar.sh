#!/usr/bin/env bash
# Builds the sidecar as one static file that needs nothing else in its image, and prints its path.
#
#   hack/build-sidecar.sh               the release build: optimised, one static file
#   hack/build-sidecar.sh --for-tests   the same source without optimisation, for the images that tests push and run.
#                                       It shares all dependencies with the programs that `make test` builds,
#                                       so it takes seconds instead of minutes.
#
# PPS_STATIC_SIDECAR=FILE   use this file and build nothing.
#
# Both link glibc statically. Both need the crate getrandom to use the system call: its default looks for the
# function in a shared C library and falls back to /dev/urandom, which the image does not have.
set -euo pipefail
. "$(dirname "$0")/common.sh"
cd "$REPO_DIR"

# The release build passes --target, which keeps crt-static away from build scripts and procedural macros.
for_release() {
    local target flags
    target="$(uname -m)-unknown-linux-gnu"
    [ -d "$("${RUSTC:-rustc}" --print sysroot)/lib/rustlib/$target" ] \
        || die "Rust's standard library for $target is missing: rustup target add $target"
    flags='-C target-feature=+crt-static --cfg getrandom_backend="linux_getrandom"'
    step "build the static sidecar (the first time takes minutes)" env RUSTFLAGS="${RUSTFLAGS:-} $flags" \
        "$CARGO" build --locked --release -p pps-sidecar --bin pps-sidecar --target "$target"
    realpath "$TARGET_DIR/$target/release/pps-sidecar"
}

# The test build selects the whole workspace, as `make test` does, because cargo chooses the features of
# dependencies by what is selected. .cargo/config.toml sets getrandom's backend.
# Cargo links the result to debug/pps-sidecar, where the next build of the programs puts the dynamic one again.
for_tests() {
    step "build the static sidecar for the tests" env RUSTC_WORKSPACE_WRAPPER="$REPO_DIR/hack/rustc-static.sh" \
        "$CARGO" build --locked --workspace --bin pps-sidecar
    mkdir -p "$TARGET_DIR/debug/static"
    cmp -s "$TARGET_DIR/debug/pps-sidecar" "$TARGET_DIR/debug/static/pps-sidecar" \
        || install -m 755 "$TARGET_DIR/debug/pps-sidecar" "$TARGET_DIR/debug/static/pps-sidecar"
    realpath "$TARGET_DIR/debug/static/pps-sidecar"
}

if [ -n "${PPS_STATIC_SIDECAR:-}" ]; then
    [ -f "$PPS_STATIC_SIDECAR" ] || die "PPS_STATIC_SIDECAR names $PPS_STATIC_SIDECAR, which does not exist"
    say "using $PPS_STATIC_SIDECAR"
    echo "$PPS_STATIC_SIDECAR"
    exit 0
fi
with_cargo
TARGET_DIR="${CARGO_TARGET_DIR:-target}"
have cc && [ -e "$(cc -print-file-name=libc.a)" ] || need_packages gcc libc6-dev
case "${1:-}" in
"") for_release ;;
--for-tests) for_tests ;;
*) die "unknown argument $1: use --for-tests, or none" ;;
esac
