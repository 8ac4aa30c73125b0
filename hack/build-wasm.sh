#!/usr/bin/env bash
# Builds the policy: policy.wasm, and the same as annotated-policy.wasm, since its metadata is embedded
# (src/lib.rs). The second run takes a second.
#
# PPS_POLICY_WASM=FILE   a module that is there already: nothing is built.
#
# Why wasm32-unknown-unknown and not wasm32-wasip1: it imports nothing but waPC, is a tenth smaller, and is not
# slower.
set -euo pipefail
. "$(dirname "$0")/common.sh"
cd "$REPO_DIR"

TARGET=wasm32-unknown-unknown
# A directory of its own: two compilers in one make cargo rebuild everything.
BUILD_DIR="$REPO_DIR/target-wasm"
BUILT="$BUILD_DIR/$TARGET/wasm/persistent_pod_state_policy.wasm"
# The root package is an rlib too, for its tests; link-time optimisation needs the cdylib alone.
BUILD=(rustc --locked --profile wasm --lib --crate-type cdylib -p persistent-pod-state-policy
    --target "$TARGET" --target-dir "$BUILD_DIR")

# Panics name the source they are in: without this machine's folders, which would be 1 KB, and another module on
# another machine.
REMAP="--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}/registry/src/index.crates.io-1949cf8c6b5b557f="
REMAP+=" --remap-path-prefix=/usr/lib/rustlib/src/rust/library=rust"

# compile: with the installed target, or else with Debian's compiler and standard library source.
compile() {
    with_cargo
    if [ -d "$("${RUSTC:-rustc}" --print sysroot)/lib/rustlib/$TARGET" ]; then
        step "build the policy for $TARGET" env RUSTFLAGS="$REMAP" "$CARGO" "${BUILD[@]}"
    else
        need_packages cargo-web rustc-web rust-web-src lld-19 gcc libc6-dev
        step "build the policy and Rust's standard library for $TARGET (the first time takes minutes)" \
            env RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Clinker=wasm-ld-19 $REMAP" \
            /usr/bin/cargo "${BUILD[@]}" -Zbuild-std=std,panic_abort
    fi
}

# optimise FROM TO: the compiler's features have to be named for older versions of wasm-opt.
optimise() {
    wasm-opt -Oz --flatten --rereloop -Oz -Oz --converge --strip-debug --strip-producers --enable-bulk-memory --enable-mutable-globals --enable-multivalue \
        --enable-nontrapping-float-to-int --enable-reference-types --enable-sign-ext "$1" -o "$2"
}

build() {
    compile
    if [ ! -e policy.wasm ] || [ "$BUILT" -nt policy.wasm ] || [ hack/build-wasm.sh -nt policy.wasm ]; then
        if ! have wasm-opt && have dpkg-query && [ "$(id -u)" -eq 0 ]; then need_packages binaryen; fi
        if have wasm-opt; then
            step "optimise it" optimise "$BUILT" policy.wasm.new
        else
            say "wasm-opt (Debian: binaryen) is missing: the policy stays larger than it has to be"
            cp "$BUILT" policy.wasm.new
        fi
        mv policy.wasm.new policy.wasm
        say "policy.wasm: $(($(stat -c %s policy.wasm) / 1024)) KiB"
    fi
    cmp -s policy.wasm annotated-policy.wasm || cp policy.wasm annotated-policy.wasm
}

if [ -n "${PPS_POLICY_WASM:-}" ]; then
    [ -f "$PPS_POLICY_WASM" ] || die "PPS_POLICY_WASM names $PPS_POLICY_WASM, and there is no such file"
    say "using $PPS_POLICY_WASM"
    exit 0
fi
with_lock "policy" build
