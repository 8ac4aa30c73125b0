#!/usr/bin/env bash
# Builds kubectl-pps as one file that needs nothing else, and prints its path.
#
#   hack/build-kubectl-pps.sh               for this machine's processor
#   hack/build-kubectl-pps.sh --arch=arm64  for arm64 or amd64; cross-compiled if this machine has the other one
#   hack/build-kubectl-pps.sh --windows     for Windows on amd64, with MinGW
#   hack/build-kubectl-pps.sh --check-windows
#                                           only checks that the code compiles for Windows, and prints nothing
#
# PPS_STATIC_PLUGIN=FILE   use this file for this machine's processor and build nothing.
# PPS_FOREIGN_PLUGIN=FILE  the same for the other processor.
set -euo pipefail
. "$(dirname "$0")/common.sh"
PROGRAM=kubectl-pps NAME="kubectl-pps"
. "$(dirname "$0")/static.sh"
cd "$REPO_DIR"

# for_windows check|build
for_windows() {
    local target=x86_64-pc-windows-gnu folder="$TARGET_DIR" extra=()
    have x86_64-w64-mingw32-gcc || need_packages gcc-mingw-w64-x86-64-win32
    export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER="$(setting CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER x86_64-w64-mingw32-gcc)"
    if ! has_target "$target"; then
        use_debians_compiler "$target" gcc libc6-dev
    fi
    local command=("${BUILD[@]}")
    command[0]=$1
    # Paths of the machine that built it would differ from build to build.
    step "$1 $NAME for Windows (the first time takes minutes)" env RUSTFLAGS="${RUSTFLAGS:-} -C target-feature=+crt-static" \
        "$CARGO" "${command[@]}" --target "$target" --target-dir "$folder" "${extra[@]}"
    [ "$1" = check ] || realpath "$folder/$target/release/$PROGRAM.exe"
}

NATIVE="$(native_arch)"
case "${1:-}" in
"") ARCH="$NATIVE" ;;
--arch=amd64 | --arch=arm64) ARCH="${1#--arch=}" ;;
--windows | --check-windows) ARCH=windows ;;
*) die "unknown argument $1: use --arch=amd64, --arch=arm64, --windows, --check-windows, or none" ;;
esac
if [ "$ARCH" = "$NATIVE" ]; then
    use_given PPS_STATIC_PLUGIN
elif [ "$ARCH" != windows ]; then
    use_given PPS_FOREIGN_PLUGIN
fi
with_cargo
case "$ARCH" in
"$NATIVE") for_this_processor ;;
windows) if [ "$1" = --windows ]; then for_windows build; else for_windows check; fi ;;
*) for_foreign_processor "$ARCH" ;;
esac
