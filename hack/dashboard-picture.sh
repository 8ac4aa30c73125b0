#!/usr/bin/env bash
# Makes a picture of the dashboard with real data: hack/dashboard-picture.sh FILE.png
#
# CHROMIUM=PROGRAM  the browser. The default is the one on the PATH; without one, Debian's is installed (80 MB).
set -euo pipefail
. "$(dirname "$0")/common.sh"
cd "$REPO_DIR"
[ $# -eq 1 ] || die "name the picture: hack/dashboard-picture.sh docs/images/dashboard.png"
BROWSER="${CHROMIUM:-$(command -v chromium || command -v google-chrome || true)}"
if [ -z "$BROWSER" ]; then
    need_packages chromium fonts-dejavu-core
    BROWSER=chromium
fi
hack/build-programs.sh --workspace --bin pps-sidecar --bin pps-e2e-supervise --bin pps-dashboard
PPS_CONTROL_PLANE_DIR="$(hack/control-plane.sh)"
export PPS_CONTROL_PLANE_DIR
mkdir -p "$(dirname "$1")"
"${CARGO_TARGET_DIR:-target}/debug/pps-dashboard" --browser "$BROWSER" "$1"
