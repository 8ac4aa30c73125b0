#!/usr/bin/env bash
# Runs `cargo build` with these arguments and shows that it is alive.
set -euo pipefail
. "$(dirname "$0")/common.sh"
cd "$REPO_DIR"
with_cargo
step "compile (the first time takes minutes)" "$CARGO" build --locked "$@"
