#!/usr/bin/env bash
# Prints a folder with the programs `kustomize` and `helm`. Creates the folder if it is missing.
#
# KUSTOMIZE=PROGRAM, HELM=PROGRAM  use these programs. The default is those on the PATH.
#
# If one is missing, the script takes its real engine from a Python package that bundles it as a C library. It
# downloads 100 MB once, and 113 MB stay in the user's cache. hack/manifest-tools.py wraps the engines in the part of
# the command line that the tests use.
set -euo pipefail
. "$(dirname "$0")/common.sh"

PACKAGES="$REPO_DIR/hack/manifest-tools.txt"
DRIVER="$REPO_DIR/hack/manifest-tools.py"
# Each list of packages has a folder of its own.
LIBRARIES="$CACHE_DIR/manifest-tools-$(sha256sum <"$PACKAGES" | head -c 12)"
# And each version of the wrapper: another checkout may have another one.
PROGRAMS="$LIBRARIES/$(sha256sum <"$DRIVER" | head -c 12)"

# program NAME VALUE: prints the path of VALUE, or of NAME on the PATH if VALUE is empty; nothing if there is none.
program() {
    local name=$1 value=$2
    if [ -n "$value" ]; then
        command -v "$value" || die "${name^^} names $value, which does not exist: set it to a program, or unset it"
    else
        command -v "$name" || true
    fi
}

# take WHEEL PATTERN: copies the first file that matches out of a package, which is a ZIP archive. A package may
# contain the same library under several names.
take() {
    python3 - "$1" "$2" "$LIBRARIES" <<'EOF'
import fnmatch, os, shutil, sys, zipfile
wheel, pattern, folder = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive:
    name = next(name for name in archive.namelist() if fnmatch.fnmatchcase(name, pattern))
    target = os.path.join(folder, os.path.basename(name))
    with archive.open(name) as source, open(target + ".new", "wb") as copy:
        shutil.copyfileobj(source, copy)
    os.rename(target + ".new", target)
EOF
}

download() {
    # The packages are for another Python than this machine's; only the libraries in them are used.
    python3 -m pip download --quiet --no-cache-dir --disable-pip-version-check --no-deps --require-hashes -r "$PACKAGES" \
        --only-binary=:all: --python-version 3.14 --platform manylinux_2_28_x86_64 --dest "$WORK"
    mkdir -p "$LIBRARIES"
    take "$WORK"/helm_python_sdk-*.whl 'helm_python/lib/libhelm_c.so'
    take "$WORK"/pykustomize-*.whl 'pykustomize/_lib/linux-amd64/libpykustomize.so'
}

prepare() {
    if [ ! -f "$LIBRARIES/libhelm_c.so" ] || [ ! -f "$LIBRARIES/libpykustomize.so" ]; then
        [ "$(uname -sm)" = "Linux x86_64" ] \
            || die "install kustomize and helm, or set KUSTOMIZE and HELM: their libraries exist for Linux on x86_64 only"
        python3 -m pip --version >/dev/null 2>&1 || need_packages python3 python3-pip
        WORK="$(mktemp -d "${TMPDIR:-/tmp}/pps-manifest-tools.XXXXXX")"
        trap 'rm -rf "$WORK"' EXIT
        step "download the engines of kustomize and helm" download
    fi
    have python3 || need_packages python3
    local name
    mkdir -p "$PROGRAMS"
    for name in kustomize helm; do
        [ ! -x "$PROGRAMS/$name" ] || continue
        # A launcher of Python's versions would take as long as the rendering.
        { echo "#!$(python3 -c 'import sys; print(sys.executable)') -IS" && tail -n +2 "$DRIVER"; } >"$PROGRAMS/$name.new"
        chmod 755 "$PROGRAMS/$name.new"
        mv "$PROGRAMS/$name.new" "$PROGRAMS/$name"
    done
}

OWN_KUSTOMIZE="$(program kustomize "${KUSTOMIZE:-}")"
OWN_HELM="$(program helm "${HELM:-}")"
if [ -n "$OWN_KUSTOMIZE" ] && [ -n "$OWN_HELM" ]; then
    :
else
    with_lock manifest-tools prepare >&2
fi
if [ -z "$OWN_KUSTOMIZE$OWN_HELM" ]; then
    echo "$PROGRAMS"
else
    DIR="$CACHE_DIR/manifest-tools-own"
    mkdir -p "$DIR"
    for name in kustomize helm; do
        own="OWN_${name^^}"
        ln -sfn "${!own:-$PROGRAMS/$name}" "$DIR/$name"
    done
    echo "$DIR"
fi
