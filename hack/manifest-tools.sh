#!/usr/bin/env bash
# Prints a folder with the programs `kustomize` and `helm`, and makes it when it is not there yet.
#
# KUSTOMIZE=PROGRAM, HELM=PROGRAM  use these; otherwise those on the PATH, if there are any.
#
# Where one is missing, its real engine is taken from a Python package that bundles it as a C library (100 MB
# are downloaded, once; 113 MB stay in the user's cache), and hack/manifest-tools.py gives it the part of
# the command line that the tests use.
set -euo pipefail
. "$(dirname "$0")/common.sh"

PACKAGES="$REPO_DIR/hack/manifest-tools.txt"
DRIVER="$REPO_DIR/hack/manifest-tools.py"
# Another list of packages or another driver makes another folder.
LIBRARIES="$CACHE_DIR/manifest-tools-$(sha256sum <"$PACKAGES" | head -c 12)"

# program NAME VALUE: the program that VALUE names, else NAME on the PATH; nothing if there is none.
program() {
    local name=$1 value=$2
    if [ -n "$value" ]; then
        command -v "$value" || die "there is no program $value: set ${name^^} to one, or unset it"
    else
        command -v "$name" || true
    fi
}

# take WHEEL PATTERN: the one file that matches, out of a package, which is a ZIP archive. A package may hold the
# same library several times under different names.
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
    # For no Python of this machine, of which only the standard library is used here.
    python3 -m pip download --quiet --no-cache-dir --disable-pip-version-check --no-deps --require-hashes -r "$PACKAGES" \
        --only-binary=:all: --python-version 3.14 --platform manylinux_2_28_x86_64 --dest "$WORK"
    mkdir -p "$LIBRARIES"
    take "$WORK"/helm_python_sdk-*.whl 'helm_python/lib/libhelm_c.so'
    take "$WORK"/pykustomize-*.whl 'pykustomize/_lib/linux-amd64/libpykustomize.so'
}

prepare() {
    if [ ! -f "$LIBRARIES/libhelm_c.so" ] || [ ! -f "$LIBRARIES/libpykustomize.so" ]; then
        [ "$(uname -sm)" = "Linux x86_64" ] \
            || die "install kustomize and helm, or set KUSTOMIZE and HELM: their libraries are to be had for Linux on x86_64 only"
        python3 -m pip --version >/dev/null 2>&1 || need_packages python3 python3-pip
        WORK="$(mktemp -d "${TMPDIR:-/tmp}/pps-manifest-tools.XXXXXX")"
        trap 'rm -rf "$WORK"' EXIT
        step "download the engines of kustomize and helm" download
    fi
    have python3 || need_packages python3
    local name
    for name in kustomize helm; do
        cmp -s "$DRIVER" "$LIBRARIES/$name" && continue
        install -m 755 "$DRIVER" "$LIBRARIES/$name.new"
        mv "$LIBRARIES/$name.new" "$LIBRARIES/$name"
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
    echo "$LIBRARIES"
else
    DIR="$CACHE_DIR/manifest-tools-own"
    mkdir -p "$DIR"
    for name in kustomize helm; do
        own="OWN_${name^^}"
        ln -sfn "${!own:-$LIBRARIES/$name}" "$DIR/$name"
    done
    echo "$DIR"
fi
