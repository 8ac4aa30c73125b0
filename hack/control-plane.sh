#!/usr/bin/env bash
# Prints the folder that holds etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl, kubelet,
# kube-proxy, libfaketime, docker-registry, promtool, tinyproxy and microsocks, and in its subfolder `node` what a node needs besides the
# kubelet. Creates the folder if it is missing, and adds what an older one lacks.
#
# KUBEBUILDER_ASSETS=DIR  use the Kubernetes binaries of DIR and build nothing. Without kubelet and kube-proxy there,
#                         the tests on real nodes are skipped.
#
# Without it, the script unpacks what Debian packages as binaries; it installs none of them and starts no
# service. It builds the rest of Kubernetes from Debian's source package, which includes all dependencies.
# The build takes about 4 minutes on 2 idle cores. The result stays in the user's cache.
set -euo pipefail
. "$(dirname "$0")/common.sh"

BINARIES=(etcd kube-apiserver kube-controller-manager kube-scheduler kubectl)
NODE_BINARIES=(kubelet kube-proxy)
# Not packaged by Debian.
BUILT=(kube-apiserver kube-controller-manager kube-scheduler "${NODE_BINARIES[@]}")
# Not part of a Kubernetes release. The first image is the last part of what makes `node`; the second is added to it.
OTHERS=(libfaketime.so.1 docker-registry promtool tinyproxy microsocks node/image.tar node/database.tar)
# What a node needs, with the libraries that a small Debian lacks.
NODE_PACKAGES=(containerd runc libseccomp2 containernetworking-plugins busybox-static
    conntrack libnetfilter-conntrack3 libnfnetlink0 libmnl0 iptables libxtables12 libip4tc2 libip6tc2 libnftnl11
    nftables libnftables1 libjansson4 libgmp10 libedit2 libbsd0 libmd0)
# Redis, with the libraries that a small Debian lacks.
DATABASE_PACKAGES=(redis-tools libatomic1 libjemalloc2 liblzf1 libssl3 libsystemd0 libcap2 libgcrypt20 libgpg-error0
    liblz4-1 liblzma5 libzstd1 libgcc-s1 libstdc++6)
VERSION=v1.20.2
COMMIT=faecb196815e248d3ecfb03c680a4507229c2a56
TARGET="$CACHE_DIR/control-plane-$VERSION"

complete() {
    local name
    for name in "$@"; do [ -x "$TARGET/$name" ] || return 1; done
}

# place FILE...: adds files to $TARGET. Tests that run there see each either whole or not at all.
place() {
    local file
    mkdir -p "$TARGET"
    for file in "$@"; do
        install -m 755 "$file" "$TARGET/.new.$$"
        mv -f "$TARGET/.new.$$" "$TARGET/${file##*/}"
    done
}

# unpack PACKAGE FILE...: copies the named files (or patterns) of a Debian package to $TARGET.
unpack() {
    local package=$1 file; shift
    (cd "$WORK" && apt-get -q download "$package" && mkdir -p "$package" && dpkg-deb -x "$package"_*.deb "$package")
    # shellcheck disable=SC2086 # The shell expands the patterns.
    for file in "$@"; do place "$WORK/$package"/$file; done
}

# unpack_node: makes the folder `node`: a root file system with a container runtime and its tools, and an image.
unpack_node() {
    local node="$WORK/node" package
    mkdir -p "$node/bin" "$WORK/packages"
    (cd "$WORK/packages" && apt-get -q download "${NODE_PACKAGES[@]}")
    for package in "$WORK/packages"/*.deb; do dpkg-deb --fsys-tarfile "$package" | tar -x -C "$node" --keep-directory-symlink; done
    # Debian's alternatives are links that the installation makes.
    for package in iptables ip6tables; do
        for suffix in "" -save -restore; do ln -sf "$package-nft$suffix" "$node/usr/sbin/$package$suffix"; done
    done
    busybox "$node" "$WORK/busybox"
    image e2e.local/busybox:1 "$WORK/busybox" "$node/image.tar"
    rm -rf "$node/usr/share"
    rm -rf "$TARGET/node"
    cp -a "$node" "$TARGET/.node.$$"
    mv -T "$TARGET/.node.$$" "$TARGET/node"
}

# unpack_database: makes the image of a database for Pods: Redis and BusyBox.
unpack_database() {
    local root="$WORK/redis/root" unpacked="$WORK/redis/unpacked" package
    busybox "$TARGET/node" "$root"
    mkdir -p "$unpacked"
    (cd "$WORK/redis" && apt-get -q download "${DATABASE_PACKAGES[@]}")
    for package in "$WORK/redis"/*.deb; do dpkg-deb -x "$package" "$unpacked"; done
    # Debian's redis-server is a link to this program, which looks at its name.
    cp "$unpacked/usr/bin/redis-check-rdb" "$root/bin/redis-server"
    # Relative paths, and absolute ones of this machine, become the same paths in the image.
    (cd "$unpacked" && LD_LIBRARY_PATH="$(printf '%s:' usr/lib/*-linux-gnu* lib/*-linux-gnu*)" ldd "$root/bin/redis-server" \
        | grep -o '[^ ]*/[^ ]*' | xargs cp -L --parents -t "$root")
    image e2e.local/redis:1 "$root" "$WORK/database.tar"
    TARGET="$TARGET/node" place "$WORK/database.tar"
}

# busybox NODE ROOT: makes a root file system of NODE's BusyBox.
busybox() {
    mkdir -p "$2/bin"
    cp "$1/bin/busybox" "$2/bin/"
    "$2/bin/busybox" --install -s "$2/bin"
    find "$2/bin" -type l -exec ln -sf busybox {} \;
}

# image NAME ROOT FILE: packs a root file system as an image of one layer, whose containers do nothing unless told to,
# as those that hold a Pod's namespaces.
image() {
    local folder="$3.parts" id
    mkdir -p "$folder"
    tar -C "$2" --owner=0 --group=0 --numeric-owner -cf "$folder/layer.tar" .
    id="$(sha256sum "$folder/layer.tar" | cut -d' ' -f1)"
    printf '{"architecture":"%s","os":"linux","config":{"Entrypoint":["/bin/sleep","2147483"]},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
        "$(dpkg --print-architecture)" "$id" >"$folder/config.json"
    echo '[{"Config":"config.json","RepoTags":["'"$1"'"],"Layers":["layer.tar"]}]' >"$folder/manifest.json"
    tar -C "$folder" -cf "$3" manifest.json config.json layer.tar
    chmod 755 "$3"
    rm -r "$folder"
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

# marshal_when_asked SOURCE: lets the API server write its OpenAPI document when somebody reads it, as newer ones do. This one
# writes it in three formats, at each start and at each change of a definition.
marshal_when_asked() {
    local handler="$1/vendor/k8s.io/kube-openapi/pkg/handler"
    sed -i -e 's/^func (o \*OpenAPIService) UpdateSpec(/func (o *OpenAPIService) marshal(/' \
        -e 's/^func (o \*OpenAPIService) getSwaggerBytes() .*/&\n\to.marshalLatest()/' \
        -e '/^\tvar json map/,/^\tspecPbGz := /d' -e '/\bspecPb\(Gz\)\?\(ETag\)\?$/d' -e '/\bspecPb\(Gz\)\?ETag := /d' \
        -e 's/o\.getSwaggerPbBytes}/o.protobuf}/' "$handler/handler.go"
    cat >"$handler/lazy.go" <<'EOF'
package handler

import (
	"sync"
	"time"

	"github.com/go-openapi/spec"
	jsoniter "github.com/json-iterator/go"
)

var (
	latest, protobufs sync.Map
	marshalling       sync.Mutex
)

type encoded struct {
	data         []byte
	etag, source string
}

func (o *OpenAPIService) UpdateSpec(document *spec.Swagger) error {
	latest.Store(o, document)
	return nil
}

func (o *OpenAPIService) marshalLatest() {
	marshalling.Lock()
	defer marshalling.Unlock()
	if document, changed := latest.LoadAndDelete(o); changed {
		if err := o.marshal(document.(*spec.Swagger)); err != nil {
			panic(err)
		}
	}
}

func (o *OpenAPIService) protobuf() ([]byte, string, time.Time) {
	text, source, modified := o.getSwaggerBytes()
	if known, ok := protobufs.Load(o); ok && known.(encoded).source == source {
		return known.(encoded).data, known.(encoded).etag, modified
	}
	var document map[string]interface{}
	if err := jsoniter.ConfigCompatibleWithStandardLibrary.Unmarshal(text, &document); err != nil {
		panic(err)
	}
	data, err := ToProtoBinary(document)
	if err != nil {
		panic(err)
	}
	protobufs.Store(o, encoded{data, computeETag(data), source})
	return data, computeETag(data), modified
}
EOF
}

# build PROGRAM...
build() {
    local source="$WORK/source"
    mkdir -p "$source"
    tar xf "$WORK"/kubernetes_*.orig.tar.* -C "$source" --strip-components=1
    # The bundled reflect2 crashes kube-apiserver when built with Go 1.18 or newer.
    (cd "$WORK" && apt-get -q download golang-github-modern-go-reflect2-dev \
        && dpkg-deb -x golang-github-modern-go-reflect2-dev_*.deb reflect2)
    rm -rf "$source/vendor/github.com/modern-go/reflect2"
    cp -r "$WORK/reflect2/usr/share/gocode/src/github.com/modern-go/reflect2" "$source/vendor/github.com/modern-go/"
    # This kubelet removes the object of a Pod up to a minute after its containers have ended. Newer ones do not wait.
    sed -i 's/^const syncPeriod = 10 \* time.Second/const syncPeriod = time.Second/' "$source/pkg/kubelet/status/status_manager.go"
    sed -i 's/ContainerGCPeriod = time.Minute/ContainerGCPeriod = time.Second/' "$source/pkg/kubelet/kubelet.go"
    # A certificate for the API server's calls to itself, made at each start.
    sed -i 's/GenerateKey(cryptorand.Reader, 2048)/GenerateKey(cryptorand.Reader, 1024)/' "$source/staging/src/k8s.io/client-go/util/cert/cert.go"
    marshal_when_asked "$source"
    # Kubernetes' own makefile regenerates every generated file, but only the OpenAPI definitions are missing.
    # The generator expects a GOPATH.
    mkdir -p "$WORK/go/src/k8s.io"
    ln -s "$source" "$WORK/go/src/k8s.io/kubernetes"
    cd "$WORK/go/src/k8s.io/kubernetes"
    export GOPATH="$WORK/go" GO111MODULE=off GOCACHE="$WORK/go-cache" GOFLAGS=
    generate_openapi
    # The cloud providers' libraries would be half of the code, and nothing here uses them.
    mkdir "$WORK/built"
    go build -tags providerless -ldflags "$(version_flags)" -o "$WORK/built/" "${@/#/./cmd/}"
    place "$WORK/built"/*
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
    local name missing=()
    complete "$@" && return 0
    have apt-get || die "building a control plane needs Debian 12; elsewhere set KUBEBUILDER_ASSETS to a folder with: ${BINARIES[*]}"
    WORK="$(mktemp -d "${TMPDIR:-/tmp}/pps-control-plane.XXXXXX")"
    trap 'chmod -R u+w "$WORK" 2>/dev/null; rm -rf "$WORK"' EXIT
    mkdir -p "$TARGET"
    apt-cache show etcd-server >/dev/null 2>&1 || [ "$(id -u)" -ne 0 ] || step "apt-get update" apt-get -q update
    if ! complete libfaketime.so.1; then
        step "unpack libfaketime" unpack libfaketime 'usr/lib/*/faketime/libfaketime.so.1'
    fi
    if ! complete docker-registry; then
        step "unpack docker-registry" unpack docker-registry usr/bin/docker-registry
    fi
    if ! complete promtool; then
        step "unpack promtool" unpack prometheus usr/bin/promtool
    fi
    if ! complete tinyproxy microsocks; then
        step "unpack an HTTP proxy" unpack tinyproxy-bin usr/bin/tinyproxy
        step "unpack a SOCKS proxy" unpack microsocks usr/bin/microsocks
    fi
    if ! complete node/image.tar; then
        step "unpack a container runtime" unpack_node
    fi
    if ! complete node/database.tar; then
        step "unpack a database" unpack_database
    fi
    case " $* " in
    *" kube-apiserver "*)
        complete "${BINARIES[@]}" "${BUILT[@]}" && return 0
        say "preparing Kubernetes $VERSION in $TARGET (once; about 4 minutes on 2 cores)"
        complete etcd || step "unpack etcd" unpack etcd-server usr/bin/etcd
        complete kubectl || step "unpack kubectl" unpack kubernetes-client usr/bin/kubectl
        for name in "${BUILT[@]}"; do complete "$name" || missing+=("$name"); done
        [ ${#missing[@]} -eq 0 ] || {
            need_packages golang-go gcc libc6-dev
            step "fetch Kubernetes' source" fetch_source
            step "build Kubernetes" build "${missing[@]}"
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
    for name in "${NODE_BINARIES[@]}"; do [ ! -x "$ASSETS/$name" ] || ln -sfn "$ASSETS/$name" "$DIR/$name"; done
    for name in "${OTHERS[@]%/*}"; do ln -sfn "$TARGET/$name" "$DIR/$name"; done
    echo "$DIR"
else
    with_lock control-plane prepare "${BINARIES[@]}" "${NODE_BINARIES[@]}" "${OTHERS[@]}" >&2
    echo "$TARGET"
fi
