#!/usr/bin/env bash
# Links a static sidecar from what `make test` has compiled, for the images that tests push and run, and prints its path. The C
# library is glibc, which cannot look up names everywhere; releases have musl (hack/build-release.sh).
set -euo pipefail
. "$(dirname "$0")/common.sh"
cd "$REPO_DIR"
BUILT="${CARGO_TARGET_DIR:-target}/debug"
[ -e "$BUILT/libpps_sidecar.rlib" ] || die "nothing is compiled: run make e2e-tests"
with_cargo
[ -e "$(cc -print-file-name=libc.a)" ] || need_packages libc6-dev
mkdir -p "$BUILT/static"
# By rustc: with another flag cargo would compile all crates of the workspace again.
step "link the static sidecar" "${RUSTC:-rustc}" crates/sidecar/src/main.rs --edition 2024 --crate-name pps_sidecar_static \
    --extern "pps_sidecar=$BUILT/libpps_sidecar.rlib" -L "dependency=$BUILT/deps" -C target-feature=+crt-static \
    -C strip=symbols -o "$BUILT/static/sidecar-$$"
mv "$BUILT/static/sidecar-$$" "$BUILT/static/pps-sidecar"
realpath "$BUILT/static/pps-sidecar"
