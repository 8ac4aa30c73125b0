#!/usr/bin/env bash
# Builds the sidecar as it is shipped: one static file that needs nothing else in its image. Prints its path.
# The second run takes a second.
#
# PPS_STATIC_SIDECAR=FILE   one that is there already: nothing is built.
#
# The C library is glibc, linked in; an explicit --target keeps the flags away from build scripts and from the
# libraries that the compiler loads. Random numbers come from the system call: the crate getrandom would look for
# that in a shared C library, and read /dev/urandom when there is none.
set -euo pipefail
. "$(dirname "$0")/common.sh"
cd "$REPO_DIR"

if [ -n "${PPS_STATIC_SIDECAR:-}" ]; then
    [ -f "$PPS_STATIC_SIDECAR" ] || die "PPS_STATIC_SIDECAR names $PPS_STATIC_SIDECAR, and there is no such file"
    say "using $PPS_STATIC_SIDECAR"
    echo "$PPS_STATIC_SIDECAR"
    exit 0
fi
with_cargo
TARGET="$(uname -m)-unknown-linux-gnu"
[ -d "$("${RUSTC:-rustc}" --print sysroot)/lib/rustlib/$TARGET" ] \
    || die "Rust's standard library for $TARGET is missing: rustup target add $TARGET"
have cc && [ -e "$(cc -print-file-name=libc.a)" ] || need_packages gcc libc6-dev
FLAGS='-C target-feature=+crt-static --cfg getrandom_backend="linux_getrandom"'
step "build the static sidecar (the first time takes minutes)" env RUSTFLAGS="${RUSTFLAGS:-} $FLAGS" \
    "$CARGO" build --locked --release -p pps-sidecar --bin pps-sidecar --target "$TARGET"
realpath "${CARGO_TARGET_DIR:-target}/$TARGET/release/pps-sidecar"
