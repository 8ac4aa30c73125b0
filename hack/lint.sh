#!/usr/bin/env bash
# Checks what cargo does not: the workflows with zizmor and actionlint, and the types of the playground's JavaScript with
# TypeScript.
set -euo pipefail
. "$(dirname "$0")/common.sh"
cd "$REPO_DIR"

PACKAGES=hack/lint-tools.txt
TOOLS="$CACHE_DIR/lint-tools-$(sha256sum <"$PACKAGES" | head -c 12)"

prepare() {
    [ ! -x "$TOOLS/bin/zizmor" ] || return 0
    python3 -m pip --version >/dev/null 2>&1 || need_packages python3 python3-pip
    step "install zizmor" python3 -m pip install --quiet --no-cache-dir --disable-pip-version-check --no-deps --require-hashes \
        --only-binary=:all: --target "$TOOLS" -r "$PACKAGES"
}

with_lock lint-tools prepare
# Offline: the same commit gives the same result.
"$TOOLS/bin/zizmor" --quiet --offline --min-severity medium .github
# Not with the machine's own shellcheck and pyflakes, if there are any: each machine gives the same result.
"$(hack/programs.sh lint)/actionlint" -shellcheck= -pyflakes=
# Generates the types of the playground's engine.
hack/build-playground.sh
have tsc || need_packages node-typescript
tsc --project .
