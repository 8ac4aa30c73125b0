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
set -euo pipefail
. "$(dirname "$0")/common.sh"
PROGRAM=pps-sidecar NAME=sidecar
. "$(dirname "$0")/static.sh"
cd "$REPO_DIR"

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
