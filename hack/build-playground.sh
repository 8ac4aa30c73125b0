#!/usr/bin/env bash
# Builds the playground in target/playground: the files of playground/, and in engine/ the module of crates/playground, compressed, with
# its JavaScript. If nothing has changed, that takes seconds.
#
# The module is compiled as hack/build-wasm.sh compiles the policy, but a panic has a message here: the page shows it.
set -euo pipefail
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/wasm.sh"
cd "$REPO_DIR"

PAGE="$REPO_DIR/target/playground"
BUILD_DIR="$REPO_DIR/target-wasm/playground"
BUILT="$BUILD_DIR/$TARGET/playground/pps_playground.wasm"
ENGINE="$BUILD_DIR/engine"
# The browser loads all of it before the first answer. The module counts as it is sent: compressed.
MAX_BYTES=700000

# wasm-bindgen would use reference types, with a table that older versions of wasm-opt break.
# shellcheck disable=SC2034  # wasm.sh reads all three
EXTRA_FLAGS=(-Ctarget-feature=-reference-types) STD_FLAGS=()
STD_ARGUMENTS=(-Zbuild-std=std,panic_abort -Zbuild-std-features=optimize_for_size)
# In a subshell: the native build must not get the compiler that it exports.
compile() (
    compile_wasm "the playground" "$BUILT" rustc --locked --profile playground --lib --crate-type cdylib -p pps-playground \
        --target "$TARGET" --target-dir "$BUILD_DIR"
)

# bind: the JavaScript around the module, then a smaller module.
bind() {
    with_cargo
    step "build pps-web" "$CARGO" build --locked --workspace --bin pps-web
    step "make its JavaScript" "${CARGO_TARGET_DIR:-target}/debug/pps-web" bindgen "$BUILT" "$ENGINE.new"
    want wasm-opt binaryen
    if have wasm-opt; then
        # Twice: the first run leaves something for the second.
        step "optimise it" wasm-opt -Oz -Oz --converge --strip-debug --strip-producers "${WASM_FEATURES[@]}" \
            "$ENGINE.new/bindings_bg.wasm" -o "$ENGINE.new/optimised"
        mv "$ENGINE.new/optimised" "$ENGINE.new/bindings_bg.wasm"
    else
        say "wasm-opt (Debian: binaryen) is missing: the module will be larger than necessary"
    fi
    say "the module: $(stat -c %s "$ENGINE.new/bindings_bg.wasm") bytes"
    want zopfli zopfli
    if have zopfli; then
        # 4 % smaller than gzip makes it.
        step "compress it" zopfli --i5 "$ENGINE.new/bindings_bg.wasm"
        rm "$ENGINE.new/bindings_bg.wasm"
    else
        say "zopfli (Debian: zopfli) is missing: the module will be larger than necessary"
        gzip -9n "$ENGINE.new/bindings_bg.wasm"
    fi
    rm -rf "$ENGINE"
    mv "$ENGINE.new" "$ENGINE"
}

build() {
    compile
    if [ ! -d "$ENGINE" ] || [ "$BUILT" -nt "$ENGINE" ] || [ hack/build-playground.sh -nt "$ENGINE" ] || [ crates/web/src/lib.rs -nt "$ENGINE" ]; then
        rm -rf "$ENGINE.new"
        bind
    fi
    rm -rf "$PAGE.new"
    mkdir -p "$PAGE.new"
    [ ! -d playground ] || cp -R playground/. "$PAGE.new"
    mkdir -p "$PAGE.new/engine"
    cp "$ENGINE"/bindings.js "$ENGINE"/bindings.d.ts "$ENGINE"/bindings_bg.wasm.gz crates/playground/js/* "$PAGE.new/engine"
    # A browser that has the page open sees either the old files or the new ones.
    if diff -rq "$PAGE" "$PAGE.new" >/dev/null 2>&1; then
        rm -rf "$PAGE.new"
    else
        rm -rf "$PAGE"
        mv "$PAGE.new" "$PAGE"
        (cd "$PAGE" && find . -type f -printf '    %s %P\n' | sort -rn >&2)
    fi
    local bytes
    bytes="$(find "$PAGE" -type f ! -name '*.d.ts' -printf '%s\n' | awk '{all += $1} END {print all}')"
    say "target/playground: $bytes bytes"
    # Without zopfli it is larger, and works as well.
    ! have zopfli || [ "$bytes" -le "$MAX_BYTES" ] || die "the playground has $bytes bytes, and at most $MAX_BYTES are allowed"
}

with_lock "playground" build
