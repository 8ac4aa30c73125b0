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
. "$(dirname "$0")/wasm.sh"
cd "$REPO_DIR"

# A separate directory: if two compilers share one, cargo rebuilds everything.
BUILD_DIR="$REPO_DIR/target-wasm"
BUILT="$BUILD_DIR/$TARGET/wasm/persistent_pod_state_policy.wasm"
# The root package is also an rlib, for its tests; link-time optimisation needs the cdylib alone.
BUILD=(rustc --locked --profile wasm --lib --crate-type cdylib -p persistent-pod-state-policy
    --target "$TARGET" --target-dir "$BUILD_DIR")

# compile: releases are built with Debian's compiler: that module is smaller, since only that way the standard library is compiled for size
# and a panic is a trap without a message: waPC has no place for one. The limit of size in e2e-tests/tests/corpus.rs is for it. Both
# modules give the same answers.
# shellcheck disable=SC2034  # wasm.sh reads all three
EXTRA_FLAGS=()
STD_FLAGS=(-Zunstable-options -Cpanic=immediate-abort)
STD_ARGUMENTS=(-Zbuild-std=std -Zbuild-std-features=optimize_for_size)
compile() { compile_wasm "the policy" "$BUILT" "${BUILD[@]}"; }

optimise() {
    wasm-opt -Oz --strip-debug --strip-producers "${WASM_FEATURES[@]}" "$1" -o "$2"
}

build() {
    compile
    if [ ! -e policy.wasm ] || [ "$BUILT" -nt policy.wasm ] || [ hack/build-wasm.sh -nt policy.wasm ]; then
        want wasm-opt binaryen
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
