#!/usr/bin/env bash
# Fuzzes the targets in fuzz/, or the named ones, one after the other.
#
# FUZZ_SECONDS=600   how long each target runs
# FUZZ_KEEP=1        add the inputs that cover new code to fuzz/corpus, where `cargo test` replays them
#
# The fuzzer leaves an input that breaks an invariant in fuzz/artifacts and prints its story. Fix the code, and keep
# the input in fuzz/corpus under a name that says what was wrong.
set -euo pipefail
. "$(dirname "$0")/common.sh"
cd "$REPO_DIR"
with_cargo
have c++ || need_packages g++
VERSION=0.13.2
TOOL="$CACHE_DIR/tools/bin/cargo-fuzz"
if ! "$TOOL" fuzz --version 2>/dev/null | grep -q "$VERSION"; then
    step "build cargo-fuzz $VERSION (once)" "$CARGO" install --quiet --locked --root "$CACHE_DIR/tools" "cargo-fuzz@$VERSION"
fi

TARGET_DIR="${CARGO_TARGET_DIR:-$REPO_DIR/target}"
# libFuzzer needs flags that a stable compiler accepts only with this variable. There is no sanitizer, because there
# is no unsafe code to watch and each sanitizer halves the speed.
export RUSTC_BOOTSTRAP=1 CARGO
FUZZ=(--sanitizer none --target-dir "$TARGET_DIR/fuzz")
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
    for file in fuzz/fuzz_targets/*.rs; do targets+=("$(basename "$file" .rs)"); done
fi

step "write the seeds" "$CARGO" run --quiet --locked -p pps-invariants --example seeds -- "$TARGET_DIR/fuzz-seeds"
step "build the targets" "$TOOL" fuzz build "${FUZZ[@]}"
for target in "${targets[@]}"; do
    kept="fuzz/corpus/$target" found="$TARGET_DIR/fuzz-corpus/$target" seeds="$TARGET_DIR/fuzz-seeds/$target"
    mkdir -p "$kept" "$found"
    step "fuzz $target for ${FUZZ_SECONDS:-600} s" "$TOOL" fuzz run "${FUZZ[@]}" "$target" "$found" "$kept" "$seeds" -- \
        -max_total_time="${FUZZ_SECONDS:-600}" -dict=fuzz/pps.dict -max_len=8192 -timeout=10
    if [ -n "${FUZZ_KEEP:-}" ]; then
        step "keep what $target found" "$TOOL" fuzz run "${FUZZ[@]}" "$target" "$kept" "$found" -- \
            -set_cover_merge=1 -max_len=1024
    fi
done
