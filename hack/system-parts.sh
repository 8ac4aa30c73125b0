#!/usr/bin/env bash
# Prints the folder that holds what tests and the demo need of Debian: libfaketime, promtool, tinyproxy and microsocks, and in
# its subfolder `node` what a node needs besides the kubelet. Creates the folder if it is missing.
#
# The script unpacks packages into the user's cache. It installs none of them and starts no service.
set -euo pipefail
. "$(dirname "$0")/common.sh"

# What a node needs, with the libraries that a small Debian lacks.
NODE_PACKAGES=(containerd runc libseccomp2 containernetworking-plugins busybox-static
    conntrack libnetfilter-conntrack3 libnfnetlink0 libmnl0 iptables libxtables12 libip4tc2 libip6tc2 libnftnl11
    nftables libnftables1 libjansson4 libgmp10 libedit2 libbsd0 libmd0)
# Redis and its command line, with the libraries that a small Debian lacks.
DATABASE_PACKAGES=(redis-tools libatomic1 libjemalloc2 liblzf1 libssl3 libsystemd0 libcap2 libgcrypt20 libgpg-error0
    liblz4-1 liblzma5 libzstd1 libgcc-s1 libstdc++6)
# Another checkout may need other packages.
TARGET="$CACHE_DIR/system-parts-$(sha256sum <"$0" | head -c 12)"

# unpack PACKAGE FILE: copies a file (or a pattern) of a Debian package to $NEW.
unpack() {
    (cd "$WORK" && apt-get -q download "$1" && mkdir -p "$1" && dpkg-deb -x "$1"_*.deb "$1")
    # shellcheck disable=SC2086 # The shell expands the pattern.
    install -m 755 "$WORK/$1"/$2 "$NEW/"
}

# unpack_node: makes the folder `node`: a root file system with a container runtime and its tools, and an image.
unpack_node() {
    local node="$NEW/node" package suffix
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
}

# unpack_database: makes the image of a database for Pods: Redis and BusyBox.
unpack_database() {
    local root="$WORK/redis/root" unpacked="$WORK/redis/unpacked" package
    busybox "$NEW/node" "$root"
    mkdir -p "$unpacked"
    (cd "$WORK/redis" && apt-get -q download "${DATABASE_PACKAGES[@]}")
    for package in "$WORK/redis"/*.deb; do dpkg-deb -x "$package" "$unpacked"; done
    # Debian's redis-server is a link to this program, which looks at its name.
    cp "$unpacked/usr/bin/redis-check-rdb" "$root/bin/redis-server"
    cp "$unpacked/usr/bin/redis-cli" "$root/bin/"
    # Relative paths, and absolute ones of this machine, become the same paths in the image.
    (cd "$unpacked" && LD_LIBRARY_PATH="$(printf '%s:' usr/lib/*-linux-gnu* lib/*-linux-gnu*)" ldd "$root/bin/redis-server" "$root/bin/redis-cli" \
        | sed '/:$/d' | grep -o '[^ ]*/[^ ]*' | sort -u | xargs cp -L --parents -t "$root")
    image e2e.local/redis:1 "$root" "$NEW/node/database.tar"
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

prepare() {
    # Another process may have done it while this one waited.
    [ ! -d "$TARGET" ] || return 0
    have apt-get || die "this machine has no apt-get: the tests and the demo need Debian 12 or newer"
    WORK="$(mktemp -d "${TMPDIR:-/tmp}/pps-system-parts.XXXXXX")" NEW="$TARGET.new"
    trap 'chmod -R u+w "$WORK" 2>/dev/null; rm -rf "$WORK"' EXIT
    rm -rf "$NEW"
    mkdir -p "$NEW"
    apt-cache show libfaketime >/dev/null 2>&1 || [ "$(id -u)" -ne 0 ] || step "apt-get update" apt-get -q update
    step "unpack a container runtime" unpack_node
    step "unpack a database" unpack_database
    step "unpack libfaketime" unpack libfaketime 'usr/lib/*/faketime/libfaketime.so.1'
    step "unpack promtool" unpack prometheus usr/bin/promtool
    step "unpack an HTTP proxy" unpack tinyproxy-bin usr/bin/tinyproxy
    step "unpack a SOCKS proxy" unpack microsocks usr/bin/microsocks
    mv -T "$NEW" "$TARGET"
}

[ -d "$TARGET" ] || with_lock "parts of nodes" prepare >&2
echo "$TARGET"
