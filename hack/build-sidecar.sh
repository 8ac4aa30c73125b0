#!/usr/bin/env bash
# Builds the sidecar as one static file that needs nothing else in its image, and prints its path.
#
#   hack/build-sidecar.sh               the release build for this machine's processor: optimised, one static file
#   hack/build-sidecar.sh --arch=arm64  the same for arm64 or amd64; cross-compiled if this machine has the other one
#   hack/build-sidecar.sh --foreign     the same for the processor that this machine does not have
#   hack/build-sidecar.sh --for-tests   the same source without optimisation, for the images that tests push and run.
#                                       It shares all dependencies with the programs that `make test` builds,
#                                       so it takes seconds instead of minutes.
#
# PPS_STATIC_SIDECAR=FILE   use this file for this machine's processor and build nothing.
# PPS_FOREIGN_SIDECAR=FILE  the same for the other processor.
#
# All link glibc statically. All need the crate getrandom to use the system call: its default looks for the
# function in a shared C library and falls back to /dev/urandom, which the image does not have.
set -euo pipefail
. "$(dirname "$0")/common.sh"
cd "$REPO_DIR"

TARGET_DIR="${CARGO_TARGET_DIR:-target}"
BUILD=(build --locked --release -p pps-sidecar --bin pps-sidecar)
FLAGS="${RUSTFLAGS:-} -C target-feature=+crt-static --cfg getrandom_backend=\"linux_getrandom\""

# has_target TARGET: whether the compiler has Rust's standard library for it.
has_target() { [ -d "$("${RUSTC:-rustc}" --print sysroot)/lib/rustlib/$1" ]; }

# The release build passes --target, which keeps crt-static away from build scripts and procedural macros.
for_this_processor() {
    local target
    target="$(uname -m)-unknown-linux-gnu"
    have cc && [ -e "$(cc -print-file-name=libc.a)" ] || need_packages gcc libc6-dev
    has_target "$target" || die "Rust's standard library for $target is missing: rustup target add $target"
    step "build the static sidecar (the first time takes minutes)" env RUSTFLAGS="$FLAGS" \
        "$CARGO" "${BUILD[@]}" --target "$target"
    realpath "$TARGET_DIR/$target/release/pps-sidecar"
}

# for_foreign_processor ARCH: with the installed target, or else with Debian's compiler and standard library source,
# which get a target directory of their own: if two compilers share one, cargo rebuilds everything.
for_foreign_processor() {
    local arch=$1 machine packages target prefix name folder="$TARGET_DIR" extra=()
    case "$arch" in
    arm64) machine=aarch64 packages=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross) ;;
    amd64) machine=x86_64 packages=(gcc-x86-64-linux-gnu libc6-dev-amd64-cross) ;;
    esac
    target="$machine-unknown-linux-gnu" prefix="$machine-linux-gnu-"
    # Cargo and the build script of ring, which contains C, read these. Your own settings take precedence.
    name="${target//-/_}"
    export "CC_$name=$(setting "CC_$name" "${prefix}gcc")" "AR_$name=$(setting "AR_$name" "${prefix}ar")"
    export "CARGO_TARGET_${name^^}_LINKER=$(setting "CARGO_TARGET_${name^^}_LINKER" "${prefix}gcc")"
    name="CC_$name"
    have "${!name}" && [ -e "$("${!name}" -print-file-name=libc.a)" ] || need_packages "${packages[@]}"

    if ! has_target "$target"; then
        have dpkg-query || die "Rust's standard library for $target is missing: rustup target add $target"
        need_packages cargo-web rustc-web rust-web-src gcc libc6-dev
        CARGO=/usr/bin/cargo folder="$TARGET_DIR/build-std" extra=(-Zbuild-std=std,panic_unwind)
        export RUSTC=/usr/bin/rustc RUSTDOC=/usr/bin/rustdoc RUSTC_BOOTSTRAP=1
        say "Rust's standard library for $target is not installed (rustup target add $target): building it with Debian's compiler"
    fi
    step "build the static sidecar for $arch (the first time takes minutes)" env RUSTFLAGS="$FLAGS" \
        "$CARGO" "${BUILD[@]}" --target "$target" --target-dir "$folder" "${extra[@]}"
    realpath "$folder/$target/release/pps-sidecar"
}

# setting NAME DEFAULT: prints the variable's value, or the default if it is not set.
setting() { echo "${!1:-$2}"; }

# The test build selects the whole workspace, as `make test` does, because cargo chooses the features of
# dependencies by what is selected. .cargo/config.toml sets getrandom's backend.
# Cargo links the result to debug/pps-sidecar, where the next build of the programs puts the dynamic one again.
for_tests() {
    have cc && [ -e "$(cc -print-file-name=libc.a)" ] || need_packages gcc libc6-dev
    step "build the static sidecar for the tests" env RUSTC_WORKSPACE_WRAPPER="$REPO_DIR/hack/rustc-static.sh" \
        "$CARGO" build --locked --workspace --bin pps-sidecar
    mkdir -p "$TARGET_DIR/debug/static"
    cmp -s "$TARGET_DIR/debug/pps-sidecar" "$TARGET_DIR/debug/static/pps-sidecar" \
        || install -m 755 "$TARGET_DIR/debug/pps-sidecar" "$TARGET_DIR/debug/static/pps-sidecar"
    realpath "$TARGET_DIR/debug/static/pps-sidecar"
}

# use_given VARIABLE: if it names a file, prints that and exits.
use_given() {
    local file="${!1:-}"
    [ -n "$file" ] || return 0
    [ -f "$file" ] || die "$1 names $file, which does not exist"
    say "using $file"
    echo "$file"
    exit 0
}

NATIVE="$(native_arch)"
case "${1:-}" in
"" | --for-tests) ARCH="$NATIVE" ;;
--foreign) ARCH="$(foreign_arch)" ;;
--arch=amd64 | --arch=arm64) ARCH="${1#--arch=}" ;;
*) die "unknown argument $1: use --arch=amd64, --arch=arm64, --foreign, --for-tests, or none" ;;
esac
if [ "$ARCH" = "$NATIVE" ]; then use_given PPS_STATIC_SIDECAR; else use_given PPS_FOREIGN_SIDECAR; fi
with_cargo
if [ "${1:-}" = --for-tests ]; then
    for_tests
elif [ "$ARCH" = "$NATIVE" ]; then
    for_this_processor
else
    for_foreign_processor "$ARCH"
fi
