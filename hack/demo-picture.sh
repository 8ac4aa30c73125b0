#!/usr/bin/env bash
# Runs the demo in a terminal of its own, and draws the recording as an animation in docs/images/demo.svg.
#
#   hack/demo-picture.sh PROGRAM   the demo, as `make demo` builds it
set -euo pipefail
. "$(dirname "$0")/common.sh"
cd "$REPO_DIR"

DEMO="${1:?name the built demo}"
PICTURE=docs/images/demo.svg
# A page shows this width without scaling it, and this height has all that one command prints.
SCREEN=100x34
# A step that takes longer than this looks as if nothing happened; one that is shorter cannot be read.
LONGEST_MILLISECONDS=2500
SHORTEST_MILLISECONDS=40
PAUSE_SECONDS=3
PACKAGES=hack/demo-picture.txt
TOOLS="$CACHE_DIR/demo-picture-$(sha256sum <"$PACKAGES" | head -c 12)"
# Debian's, which sees Debian's packages.
PYTHON=/usr/bin/python3

prepare() {
    "$PYTHON" -c 'import lxml, pyte, wcwidth' 2>/dev/null || need_packages python3-lxml python3-pyte python3-wcwidth
    [ ! -d "$TOOLS" ] || return 0
    "$PYTHON" -m pip --version >/dev/null 2>&1 || need_packages python3-pip
    rm -rf "$TOOLS.new"
    step "install termtosvg" "$PYTHON" -m pip install --quiet --no-cache-dir --disable-pip-version-check --no-deps \
        --require-hashes --only-binary=:all: --target "$TOOLS.new" -r "$PACKAGES"
    mv -T "$TOOLS.new" "$TOOLS"
}

termtosvg() { PYTHONPATH="$TOOLS" "$PYTHON" -m termtosvg "$@"; }

with_lock demo-picture prepare
RECORDING="$(mktemp -d)"
trap 'explain_end $?; rm -rf "$RECORDING"' EXIT
cat >"$RECORDING/play" <<PLAY
#!/bin/bash
printf '\033[36m$\033[0m \033[1mmake demo\033[0m\n'
exec '$DEMO' --pause $PAUSE_SECONDS
PLAY
chmod +x "$RECORDING/play"
# A recording ends with its input, so this one has no end.
mkfifo "$RECORDING/keys"
termtosvg record "$RECORDING/demo.cast" -g "$SCREEN" -c "$RECORDING/play" <>"$RECORDING/keys"
termtosvg render "$RECORDING/demo.cast" "$RECORDING/demo.svg" -t gjm8_single_loop --theme hack/demo-picture.json \
    -m "$SHORTEST_MILLISECONDS" -M "$LONGEST_MILLISECONDS"
grep -q 'with PPS .* with their data' "$RECORDING/demo.cast" || die "the demo did not come to its end, or not on real nodes; make demo shows why"
# It plays once, so that nobody has to read beside something that moves; without movement, its end is shown.
sed 's/animation-iteration-count:1;/&\n            }\n            @media (prefers-reduced-motion: reduce) {\n                #screen_view {animation-duration: 1ms;}/' \
    "$RECORDING/demo.svg" >"$PICTURE"
say "$PICTURE: $(($(stat -c %s "$PICTURE") / 1024)) KiB"
