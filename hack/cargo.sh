#!/usr/bin/env bash
# Runs cargo: the one on the PATH if it is new enough, else Debian's.
set -euo pipefail
. "$(dirname "$0")/common.sh"
with_cargo
# Debian packages these two separately from cargo.
case "${1:-}" in
fmt) "$CARGO" fmt --version >/dev/null 2>&1 || need_packages rustfmt-web ;;
clippy) "$CARGO" clippy --version >/dev/null 2>&1 || need_packages rust-web-clippy ;;
esac
exec "$CARGO" "$@"
