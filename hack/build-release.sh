#!/usr/bin/env bash
# Builds the release of one program as one file that needs nothing else, and prints its path.
#
#   hack/build-release.sh pps-sidecar                 for Linux on this machine's processor
#   hack/build-release.sh kubectl-pps windows-arm64   for the platform: linux-amd64, linux-arm64, windows-amd64 or windows-arm64
#   hack/build-release.sh pps-sidecar foreign         for Linux on the one of both processors that this machine does not have
#
# zig compiles C, links, and brings the C library: musl for Linux, that of MinGW for Windows. The list of crates is embedded
# (cargo auditable), where scanners read it.
#
# PPS_STATIC_SIDECAR, PPS_STATIC_PLUGIN     use these files for this machine's processor and build nothing.
# PPS_FOREIGN_SIDECAR, PPS_FOREIGN_PLUGIN   the same for the other processor.
set -euo pipefail
. "$(dirname "$0")/common.sh"
cd "$REPO_DIR"

NATIVE="linux-$(native_arch)"
PROGRAM="${1:-}" PLATFORM="${2:-$NATIVE}"
[ "$PLATFORM" != foreign ] || PLATFORM="linux-$(foreign_arch)"
case "$PROGRAM" in
pps-sidecar) VARIABLE=SIDECAR ;;
kubectl-pps) VARIABLE=PLUGIN ;;
*) die "no program \"$PROGRAM\": use pps-sidecar or kubectl-pps" ;;
esac
TARGET="$(rust_target "$PLATFORM")"
case "$PLATFORM" in
"$NATIVE") VARIABLE="PPS_STATIC_$VARIABLE" ;;
linux-*) VARIABLE="PPS_FOREIGN_$VARIABLE" ;;
darwin-*) die "zig lacks the frameworks Security and CoreFoundation of macOS: on a Mac, run cargo build --release -p $PROGRAM" ;;
*) VARIABLE= ;;
esac
GIVEN="${VARIABLE:+${!VARIABLE:-}}"
if [ -n "$GIVEN" ]; then
    [ -f "$GIVEN" ] || die "$VARIABLE names $GIVEN, which does not exist"
    say "using $GIVEN"
    echo "$GIVEN"
    exit 0
fi

with_cargo
TOOLS="$CACHE_DIR/zig-$(sha256sum <hack/zig.txt | head -c 12)"
prepare_zig() {
    [ ! -d "$TOOLS" ] || return 0
    python3 -m pip --version >/dev/null 2>&1 || need_packages python3 python3-pip
    rm -rf "$TOOLS.new"
    step "download zig (100 MB, once)" python3 -m pip install --quiet --no-cache-dir --disable-pip-version-check --no-deps \
        --require-hashes --only-binary=:all: --requirement hack/zig.txt --target "$TOOLS.new"
    mv "$TOOLS.new" "$TOOLS"
}
with_lock zig prepare_zig >&2
with_cargo_tool cargo-auditable 0.7.7

FOLDER="${CARGO_TARGET_DIR:-target}" EXTRA=()
if [ ! -d "$("${RUSTC:-rustc}" --print sysroot)/lib/rustlib/$TARGET" ]; then
    have dpkg-query || die "Rust's standard library for $TARGET is missing: rustup target add $TARGET"
    need_packages cargo-web rustc-web rust-web-src gcc libc6-dev
    # If two compilers share a folder, cargo rebuilds everything.
    CARGO=/usr/bin/cargo FOLDER="$FOLDER/build-std" EXTRA=(-Zbuild-std=std,panic_unwind)
    export RUSTC=/usr/bin/rustc RUSTDOC=/usr/bin/rustdoc RUSTC_BOOTSTRAP=1
    say "Rust's standard library for $TARGET is not installed (rustup target add $TARGET): building it with Debian's compiler"
fi
export CARGO CARGO_ZIGBUILD_ZIG_PATH="$TOOLS/ziglang/zig" PATH="$TOOLS/bin:$PATH"
# Cargo chooses the features of dependencies by the packages that are selected: with both, no dependency is compiled twice.
step "build $PROGRAM for $PLATFORM (the first time takes minutes)" cargo-auditable auditable zigbuild \
    --locked --release -p pps-sidecar -p kubectl-pps --bin "$PROGRAM" --target "$TARGET" --target-dir "$FOLDER" "${EXTRA[@]}"
case "$PLATFORM" in windows-*) PROGRAM="$PROGRAM.exe" ;; esac
realpath "$FOLDER/$TARGET/release/$PROGRAM"
