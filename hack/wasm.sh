# How Rust is compiled to WebAssembly. Source it after common.sh; it runs nothing by itself.
# shellcheck shell=bash

TARGET=wasm32-unknown-unknown
# Older versions of wasm-opt need the names of the features that the compiler uses.
WASM_FEATURES=(--enable-bulk-memory --enable-mutable-globals --enable-multivalue --enable-nontrapping-float-to-int
    --enable-reference-types --enable-sign-ext)

# remap_paths: sets FLAGS. Panic messages contain paths of source files. Without the folders of this machine,
# every machine with the same compiler builds the same module, and it is 1 KB smaller. Cargo unpacks packages into one folder for each
# registry, whose name holds the registry's host and a hash, so a mirror has another one: they are listed here,
# after all packages have been fetched.
remap_paths() {
    local folder
    step "fetch the packages" "$CARGO" fetch --locked --target "$TARGET"
    FLAGS=(--remap-path-prefix=/usr/lib/rustlib/src/rust/library=rust "${EXTRA_FLAGS[@]}")
    for folder in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/; do
        FLAGS+=("--remap-path-prefix=${folder%/}=")
    done
}

# with_flags COMMAND...: run cargo with FLAGS for rustc, whatever characters they contain.
with_flags() {
    local IFS=$'\x1f'
    CARGO_ENCODED_RUSTFLAGS="${FLAGS[*]}" "$@"
}

# compile_wasm WHAT MODULE ARGUMENT...: runs cargo with the arguments, with the installed target or else with Debian's compiler and
# standard library source. The compiler gets EXTRA_FLAGS. In the second case it also gets STD_FLAGS, and cargo STD_ARGUMENTS, for the
# standard library. Sets CARGO.
compile_wasm() {
    local what=$1 module=$2
    shift 2
    with_cargo
    if [ -d "$("${RUSTC:-rustc}" --print sysroot)/lib/rustlib/$TARGET" ]; then
        remap_paths
        step "build $what for $TARGET" with_flags "$CARGO" "$@"
    else
        need_packages cargo-web rustc-web rust-web-src lld-19 gcc libc6-dev
        CARGO=/usr/bin/cargo
        export RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1
        remap_paths
        FLAGS+=(-Clinker=wasm-ld-19 -Zlocation-detail=none "${STD_FLAGS[@]}")
        step "build $what and Rust's standard library for $TARGET (the first time takes minutes)" \
            with_flags "$CARGO" "$@" "${STD_ARGUMENTS[@]}"
    fi
    if LC_ALL=C grep -aqE '/registry/(src|cache)/|/index\.crates\.io|\.cargo/' "$module"; then
        die "the module names folders of this machine: strings $module | grep -E 'registry|crates|cargo'"
    fi
}

# want COMMAND PACKAGE: installs a command that only makes modules smaller, if it can.
want() {
    if ! have "$1" && have dpkg-query && [ "$(id -u)" -eq 0 ]; then need_packages "$2"; fi
}
