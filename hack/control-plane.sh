#!/usr/bin/env bash
# Prints the folder that holds etcd, kube-apiserver, kube-controller-manager, kube-scheduler,
# kubectl, the host-local IPAM plugin, libfaketime and docker-registry, and makes it when it is not there yet.
#
# KUBEBUILDER_ASSETS=DIR  use the Kubernetes binaries of DIR (all five) and build nothing.
#
# Otherwise etcd and those two are unpacked from Debian's packages (nothing is installed, no
# service is started) and Kubernetes is built from Debian's source package, which carries all that
# it needs. That takes 5 to 10 minutes on 2 cores, once; the result stays in the user's cache.
set -euo pipefail
. "$(dirname "$0")/common.sh"

BINARIES=(etcd kube-apiserver kube-controller-manager kube-scheduler kubectl)
# What no release of Kubernetes has.
OTHERS=(host-local libfaketime.so.1 docker-registry)
VERSION=v1.20.2
COMMIT=faecb196815e248d3ecfb03c680a4507229c2a56
TARGET="$CACHE_DIR/control-plane-$VERSION"

complete() {
    local name
    for name in "$@"; do [ -x "$TARGET/$name" ] || return 1; done
}

# unpack PACKAGE FILE...: the named files (or patterns) of a Debian package, into $TARGET.
unpack() {
    local package=$1 file; shift
    (cd "$WORK" && apt-get -q download "$package" && mkdir -p "$package" && dpkg-deb -x "$package"_*.deb "$package")
    # shellcheck disable=SC2086 # Patterns are meant to be expanded.
    for file in "$@"; do install -D -m 755 -t "$TARGET" "$WORK/$package"/$file; done
}

# fetch_source: Debian's source package, through a private apt configuration: the machine's own
# lists and sources are not touched.
fetch_source() {
    local apt uri release key=/usr/share/keyrings/debian-archive-keyring.gpg
    read -r uri release < <(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' \
        'Created-By: Packages' 'Origin: Debian' 'Component: main' 'Label: Debian' | grep -v updates | head -n 1) || true
    uri="${uri:-http://deb.debian.org/debian}" release="${release:-bookworm}"
    mkdir -p "$WORK/apt/lists/partial" "$WORK/apt/cache/archives/partial" "$WORK/apt/sources.d"
    [ -f "$key" ] || key=
    echo "deb-src ${key:+[signed-by=$key] }$uri $release main" >"$WORK/apt/sources.list"
    apt=(apt-get -q -o "Dir::Etc::SourceList=$WORK/apt/sources.list" -o "Dir::Etc::SourceParts=$WORK/apt/sources.d"
        -o "Dir::State::Lists=$WORK/apt/lists" -o "Dir::Cache=$WORK/apt/cache" -o APT::Sandbox::User=)
    "${apt[@]}" update
    (cd "$WORK" && "${apt[@]}" source --download-only kubernetes)
    ls "$WORK"/kubernetes_*1.20.2*.orig.tar.* >/dev/null 2>&1 \
        || { ls "$WORK" >&2; echo "this Debian release has no source of Kubernetes 1.20.2; set KUBEBUILDER_ASSETS" >&2; return 1; }
}

build() {
    local source="$WORK/source"
    mkdir -p "$source"
    tar xf "$WORK"/kubernetes_*.orig.tar.* -C "$source" --strip-components=1
    # The bundled reflect2 crashes kube-apiserver when built with Go 1.18 or newer.
    (cd "$WORK" && apt-get -q download golang-github-modern-go-reflect2-dev \
        && dpkg-deb -x golang-github-modern-go-reflect2-dev_*.deb reflect2)
    rm -rf "$source/vendor/github.com/modern-go/reflect2"
    cp -r "$WORK/reflect2/usr/share/gocode/src/github.com/modern-go/reflect2" "$source/vendor/github.com/modern-go/"
    cd "$source"
    env -u GOFLAGS GOCACHE="$WORK/go-cache" FORCE_HOST_GO=y KUBE_GIT_VERSION=$VERSION KUBE_GIT_MAJOR=1 \
        KUBE_GIT_MINOR=20 KUBE_GIT_TREE_STATE=clean KUBE_GIT_COMMIT=$COMMIT \
        make WHAT="cmd/kube-apiserver cmd/kube-controller-manager cmd/kube-scheduler cmd/kubectl"
    for name in kube-apiserver kube-controller-manager kube-scheduler kubectl; do
        install -D -m 755 "_output/local/bin/linux/$(go env GOARCH)/$name" "$TARGET/$name"
    done
}

prepare() {
    complete "$@" && return 0
    have apt-get || die "building a control plane needs Debian 12; elsewhere set KUBEBUILDER_ASSETS to a folder with: ${BINARIES[*]}"
    WORK="$(mktemp -d "${TMPDIR:-/tmp}/pps-control-plane.XXXXXX")"
    trap 'chmod -R u+w "$WORK" 2>/dev/null; rm -rf "$WORK"' EXIT
    mkdir -p "$TARGET"
    apt-cache show etcd-server >/dev/null 2>&1 || [ "$(id -u)" -ne 0 ] || step "apt-get update" apt-get -q update
    if ! complete host-local; then
        step "unpack the host-local IPAM plugin" unpack containernetworking-plugins usr/lib/cni/host-local
    fi
    if ! complete libfaketime.so.1; then
        step "unpack libfaketime" unpack libfaketime 'usr/lib/*/faketime/libfaketime.so.1'
    fi
    if ! complete docker-registry; then
        step "unpack docker-registry" unpack docker-registry usr/bin/docker-registry
    fi
    case " $* " in
    *" kube-apiserver "*)
        complete "${BINARIES[@]}" && return 0
        say "preparing Kubernetes $VERSION in $TARGET (once; 5 to 10 minutes on 2 cores)"
        need_packages golang-go rsync make gcc libc6-dev
        complete etcd || step "unpack etcd" unpack etcd-server usr/bin/etcd
        complete kube-apiserver kube-controller-manager kube-scheduler kubectl || {
            step "fetch Kubernetes' source" fetch_source
            step "build Kubernetes" build
        } ;;
    esac
}

if [ -n "${KUBEBUILDER_ASSETS:-}" ]; then
    for name in "${BINARIES[@]}"; do
        [ -x "$KUBEBUILDER_ASSETS/$name" ] || die "KUBEBUILDER_ASSETS=$KUBEBUILDER_ASSETS has no executable $name; it must hold ${BINARIES[*]} (setup-envtest leaves out the controller manager and the scheduler: take them from the server release), or unset it to build $VERSION"
    done
    with_lock control-plane prepare "${OTHERS[@]}" >&2
    mkdir -p "$TARGET"
    DIR="$CACHE_DIR/control-plane-assets"
    rm -rf "$DIR" && mkdir -p "$DIR"
    for name in "${BINARIES[@]}"; do ln -s "$KUBEBUILDER_ASSETS/$name" "$DIR/$name"; done
    for name in "${OTHERS[@]}"; do ln -s "$TARGET/$name" "$DIR/$name"; done
    echo "$DIR"
else
    with_lock control-plane prepare "${BINARIES[@]}" "${OTHERS[@]}" >&2
    echo "$TARGET"
fi
