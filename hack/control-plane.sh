#!/usr/bin/env bash
# Prints the folder that holds etcd, kube-apiserver, kube-controller-manager, kube-scheduler,
# kubectl, the host-local IPAM plugin, libfaketime, docker-registry and promtool. Creates the folder if it is missing.
#
# KUBEBUILDER_ASSETS=DIR  use the Kubernetes binaries of DIR (all five) and build nothing.
#
# Without it, the script unpacks what Debian packages as binaries; it installs none of them and starts no
# service. It builds the rest of Kubernetes from Debian's source package, which includes all dependencies.
# The build takes about 2 minutes on 2 idle cores. The result stays in the user's cache.
set -euo pipefail
. "$(dirname "$0")/common.sh"

BINARIES=(etcd kube-apiserver kube-controller-manager kube-scheduler kubectl)
# Not packaged by Debian.
BUILT=(kube-apiserver kube-controller-manager kube-scheduler)
# Not part of a Kubernetes release.
OTHERS=(host-local libfaketime.so.1 docker-registry promtool)
VERSION=v1.20.2
COMMIT=faecb196815e248d3ecfb03c680a4507229c2a56
TARGET="$CACHE_DIR/control-plane-$VERSION"

complete() {
    local name
    for name in "$@"; do [ -x "$TARGET/$name" ] || return 1; done
}

# unpack PACKAGE FILE...: copies the named files (or patterns) of a Debian package to $TARGET.
unpack() {
    local package=$1 file; shift
    (cd "$WORK" && apt-get -q download "$package" && mkdir -p "$package" && dpkg-deb -x "$package"_*.deb "$package")
    # shellcheck disable=SC2086 # The shell expands the patterns.
    for file in "$@"; do install -D -m 755 -t "$TARGET" "$WORK/$package"/$file; done
}

# fetch_source: downloads Debian's source package. A private apt configuration leaves the machine's own lists and
# sources unchanged.
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
    # Kubernetes' own makefile regenerates every generated file, but only the OpenAPI definitions are missing.
    # The generator expects a GOPATH.
    mkdir -p "$WORK/go/src/k8s.io"
    ln -s "$source" "$WORK/go/src/k8s.io/kubernetes"
    cd "$WORK/go/src/k8s.io/kubernetes"
    export GOPATH="$WORK/go" GO111MODULE=off GOCACHE="$WORK/go-cache" GOFLAGS=
    generate_openapi
    # The cloud providers' libraries would be half of the code, and nothing here uses them.
    mkdir "$WORK/built"
    go build -tags providerless -ldflags "$(version_flags)" -o "$WORK/built/" "${BUILT[@]/#/./cmd/}"
    install -m 755 -t "$TARGET" "$WORK/built"/*
}

generate_openapi() {
    local packages
    go build -o "$WORK/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
    packages="$(grep -rl --include='*.go' '+k8s:openapi-gen=' pkg plugin cmd staging/src/k8s.io \
        | xargs -n 1 dirname | sed 's,^staging/src,vendor,' | grep -v '/code-generator/\|/sample-apiserver/' | sort -u)"
    # shellcheck disable=SC2086 # One argument for each package.
    "$WORK/openapi-gen" --logtostderr --input-dirs "$(printf 'k8s.io/kubernetes/%s\n' $packages | paste -sd ,)" \
        --output-package k8s.io/kubernetes/pkg/generated/openapi --output-file-base zz_generated.openapi \
        --go-header-file hack/boilerplate/boilerplate.generatego.txt --report-filename "$WORK/violations"
}

# version_flags: the linker flags that set what the binaries report as their version.
version_flags() {
    local package
    printf '%s' '-s -w'
    for package in k8s.io/client-go/pkg/version k8s.io/component-base/version; do
        printf ' -X k8s.io/kubernetes/vendor/%s' "$package.gitVersion=$VERSION" "$package.gitMajor=1" \
            "$package.gitMinor=20" "$package.gitTreeState=clean" "$package.gitCommit=$COMMIT"
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
    if ! complete promtool; then
        step "unpack promtool" unpack prometheus usr/bin/promtool
    fi
    case " $* " in
    *" kube-apiserver "*)
        complete "${BINARIES[@]}" && return 0
        say "preparing Kubernetes $VERSION in $TARGET (once; about 2 minutes on 2 cores)"
        complete etcd || step "unpack etcd" unpack etcd-server usr/bin/etcd
        complete kubectl || step "unpack kubectl" unpack kubernetes-client usr/bin/kubectl
        complete "${BUILT[@]}" || {
            need_packages golang-go gcc libc6-dev
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
    # A folder for each set of programs: tests with another one may run at the same time.
    ASSETS="$(cd "$KUBEBUILDER_ASSETS" && pwd -P)"
    DIR="$CACHE_DIR/control-plane-assets-$(printf %s "$ASSETS" | sha256sum | cut -c 1-12)"
    mkdir -p "$DIR"
    for name in "${BINARIES[@]}"; do ln -sfn "$ASSETS/$name" "$DIR/$name"; done
    for name in "${OTHERS[@]}"; do ln -sfn "$TARGET/$name" "$DIR/$name"; done
    echo "$DIR"
else
    with_lock control-plane prepare "${BINARIES[@]}" "${OTHERS[@]}" >&2
    echo "$TARGET"
fi
