#!/usr/bin/env bash
# Builds policy.wasm, and copies it to annotated-policy.wasm: its metadata is embedded (src/lib.rs). If nothing
# has changed, that takes a second.
#
# PPS_POLICY_WASM=FILE   use this module and build nothing
#
# The target is wasm32-unknown-unknown, not wasm32-wasip1: the module imports only waPC, is 10 % smaller and just
# as fast.
set -euo pipefail
. "$(dirname "$0")/common.sh"
cd "$REPO_DIR"

TARGET=wasm32-unknown-unknown
# A separate directory: if two compilers share one, cargo rebuilds everything.
BUILD_DIR="$REPO_DIR/target-wasm"
BUILT="$BUILD_DIR/$TARGET/wasm/persistent_pod_state_policy.wasm"
# The root package is also an rlib, for its tests; link-time optimisation needs the cdylib alone.
BUILD=(rustc --locked --profile wasm --lib --crate-type cdylib -p persistent-pod-state-policy
    --target "$TARGET" --target-dir "$BUILD_DIR")

# remap_paths: sets FLAGS. Panic messages contain paths of source files. Without the folders of this machine,
# every machine with the same compiler builds the same module, and it is 1 KB smaller. Cargo unpacks packages into one folder for each
# registry, whose name holds the registry's host and a hash, so a mirror has another one: they are listed here,
# after all packages have been fetched.
remap_paths() {
    local folder
    step "fetch the packages" "$CARGO" fetch --locked --target "$TARGET"
    FLAGS=(--remap-path-prefix=/usr/lib/rustlib/src/rust/library=rust)
    for folder in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/; do
        FLAGS+=("--remap-path-prefix=${folder%/}=")
    done
}

# with_flags COMMAND...: run cargo with FLAGS for rustc, whatever characters they contain.
with_flags() {
    local IFS=$'\x1f'
    CARGO_ENCODED_RUSTFLAGS="${FLAGS[*]}" "$@"
}

# compile: with the installed target, or else with Debian's compiler and standard library source. Releases are built with
# Debian's: that module is smaller, since only that way the standard library is compiled for size and a panic has no message.
# The limit of size in e2e-tests/tests/corpus.rs is for it. Both modules give the same answers.
compile() {
    with_cargo
    if [ -d "$("${RUSTC:-rustc}" --print sysroot)/lib/rustlib/$TARGET" ]; then
        remap_paths
        step "build the policy for $TARGET" with_flags "$CARGO" "${BUILD[@]}"
    else
        need_packages cargo-web rustc-web rust-web-src lld-19 gcc libc6-dev
        CARGO=/usr/bin/cargo
        export RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1
        remap_paths
        # The standard library is built for size, and a panic is a trap without a message: waPC has no place for one.
        FLAGS+=(-Clinker=wasm-ld-19 -Zlocation-detail=none -Zunstable-options -Cpanic=immediate-abort)
        step "build the policy and Rust's standard library for $TARGET (the first time takes minutes)" \
            with_flags "$CARGO" "${BUILD[@]}" -Zbuild-std=std -Zbuild-std-features=optimize_for_size
    fi
    if LC_ALL=C grep -aqE '/registry/(src|cache)/|/index\.crates\.io|\.cargo/' "$BUILT"; then
        die "the module names folders of this machine: strings $BUILT | grep -E 'registry|crates|cargo'"
    fi
}

# optimise FROM TO: older versions of wasm-opt need the names of the features that the compiler uses.
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
            say "wasm-opt (Debian: binaryen) is missing: policy.wasm will be larger than necessary"
            cp "$BUILT" policy.wasm.new
        fi
        mv policy.wasm.new policy.wasm
        say "policy.wasm: $(($(stat -c %s policy.wasm) / 1024)) KiB"
    fi
    cmp -s policy.wasm annotated-policy.wasm || cp policy.wasm annotated-policy.wasm
}

if [ -n "${PPS_POLICY_WASM:-}" ]; then
    [ -f "$PPS_POLICY_WASM" ] || die "PPS_POLICY_WASM is $PPS_POLICY_WASM: there is no such file"
    say "using $PPS_POLICY_WASM"
    exit 0
fi
with_lock "policy" build
