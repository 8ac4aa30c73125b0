#!/usr/bin/env bash
# Builds native programs, with a sign of life where that takes long.
set -euo pipefail
. "$(dirname "$0")/common.sh"
cd "$REPO_DIR"
with_cargo
step "build the programs" "$CARGO" build --locked "$@"
