#!/usr/bin/env bash
# Writes software bills of materials (CycloneDX) of programs that are compiled for one target: cargo-cyclonedx lists the crates
# of Cargo.lock that they have, and the procedural macros with which they are compiled. The same commit gives the same bytes.
#
#   hack/sbom.sh x86_64-unknown-linux-musl pps-sidecar=FILE kubectl-pps=FILE
set -euo pipefail
. "$(dirname "$0")/common.sh"
TARGET="${1:?no target given}"
shift
with_cargo
with_cargo_tool cargo-cyclonedx 0.5.9
SOURCE_DATE_EPOCH="$(source_date_epoch)"
export CARGO SOURCE_DATE_EPOCH
# It writes beside each Cargo.toml of the workspace: of a copy, whose path is then left out.
COPY="$(mktemp -d "${TMPDIR:-/tmp}/pps-sbom.XXXXXX")"
trap 'explain_end $?; rm -rf "$COPY"' EXIT
(cd "$REPO_DIR" && cp -r Cargo.toml Cargo.lock build.rs src crates e2e-tests "$COPY")
cd "$COPY"
cargo-cyclonedx cyclonedx --quiet --format json --spec-version 1.5 --no-build-deps --target "$TARGET" --override-filename sbom
for pair in "$@"; do
    folder="$(dirname "$(grep -rlx --include=Cargo.toml "name = \"${pair%%=*}\"" .)")"
    sed "s|file://$COPY|file://|g" "$folder/sbom.json" >"${pair#*=}"
done
