#!/usr/bin/env bash
# Measures what the product costs and writes the tables of docs/benchmarks.md. Arguments choose what to measure; see
# --help.
set -euo pipefail
. "$(dirname "$0")/common.sh"
cd "$REPO_DIR"
with_cargo
step "build the measurements" "$CARGO" build --locked --profile measured -p pps-bench -p pps-e2e -p pps-sidecar --bins
exec "${CARGO_TARGET_DIR:-target}/measured/pps-bench" --write docs/benchmarks.md "$@"
