#!/usr/bin/env bash
# A RUSTC_WORKSPACE_WRAPPER that links the executable pps-sidecar statically and strips it. hack/build-test-sidecar.sh
# uses it. A compiler flag in RUSTFLAGS would rebuild all dependencies.
set -euo pipefail
case " $* " in
*" --crate-name pps_sidecar "*" --crate-type bin "*) exec "$@" -C target-feature=+crt-static -C strip=symbols ;;
*) exec "$@" ;;
esac
