# Builds one program of the workspace as one static file. Source it after common.sh, set PROGRAM to the name of its package and
# NAME to what people call it; it runs nothing by itself.
# shellcheck shell=bash
#
# All link glibc statically. All need the crate getrandom to use the system call: its default looks for the
# function in a shared C library and falls back to /dev/urandom, which an image with nothing else does not have.

TARGET_DIR="${CARGO_TARGET_DIR:-target}"
BUILD=(build --locked --release -p "$PROGRAM" --bin "$PROGRAM")
FLAGS="${RUSTFLAGS:-} -C target-feature=+crt-static --cfg getrandom_backend=\"linux_getrandom\""

# has_target TARGET: whether the compiler has Rust's standard library for it.
has_target() { [ -d "$("${RUSTC:-rustc}" --print sysroot)/lib/rustlib/$1" ]; }

# The release build passes --target, which keeps crt-static away from build scripts and procedural macros.
for_this_processor() {
    local target
    target="$(uname -m)-unknown-linux-gnu"
    have cc && [ -e "$(cc -print-file-name=libc.a)" ] || need_packages gcc libc6-dev
    has_target "$target" || die "Rust's standard library for $target is missing: rustup target add $target"
    step "build the static $NAME (the first time takes minutes)" env RUSTFLAGS="$FLAGS" \
        "$CARGO" "${BUILD[@]}" --target "$target"
    realpath "$TARGET_DIR/$target/release/$PROGRAM"
}

# use_debians_compiler TARGET PACKAGES: sets CARGO, folder and extra, which are the caller's, so that the standard library is built
# from Debian's source.
use_debians_compiler() {
    local target=$1
    shift
    have dpkg-query || die "Rust's standard library for $target is missing: rustup target add $target"
    need_packages cargo-web rustc-web rust-web-src "$@"
    CARGO=/usr/bin/cargo folder="$TARGET_DIR/build-std" extra=(-Zbuild-std=std,panic_unwind)
    export RUSTC=/usr/bin/rustc RUSTDOC=/usr/bin/rustdoc RUSTC_BOOTSTRAP=1
    say "Rust's standard library for $target is not installed (rustup target add $target): building it with Debian's compiler"
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
        use_debians_compiler "$target" gcc libc6-dev
    fi
    step "build the static $NAME for $arch (the first time takes minutes)" env RUSTFLAGS="$FLAGS" \
        "$CARGO" "${BUILD[@]}" --target "$target" --target-dir "$folder" "${extra[@]}"
    realpath "$folder/$target/release/$PROGRAM"
}

# setting NAME DEFAULT: prints the variable's value, or the default if it is not set.
setting() { echo "${!1:-$2}"; }

# use_given VARIABLE: if it names a file, prints that and exits.
use_given() {
    local file="${!1:-}"
    [ -n "$file" ] || return 0
    [ -f "$file" ] || die "$1 names $file, which does not exist"
    say "using $file"
    echo "$file"
    exit 0
}
