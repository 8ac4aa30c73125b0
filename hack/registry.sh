# How publish.sh and manifests.sh use a registry. Source it after common.sh.
# shellcheck shell=bash

# with_registry REGISTRY [--plain-http | --ca-file FILE]: sets REGISTRY, its HOST, ACCESS (the options for oras and helm), and
# PROGRAMS, the folder with both. They read Docker's credentials.
with_registry() {
    REGISTRY="${1:-}" REGISTRY="${REGISTRY%/}"
    [ -n "$REGISTRY" ] && [ "${REGISTRY#-}" = "$REGISTRY" ] || die "no registry given: add REGISTRY=registry.example.com/path"
    [[ "$REGISTRY" =~ ^(localhost|[^/]*[.:][^/]*)(/[a-z0-9._-]+)*$ ]] \
        || die "REGISTRY is $REGISTRY: use a host and a path in lower case, such as registry.example.com/path, without https://"
    HOST="${REGISTRY%%/*}"
    shift
    ACCESS=("$@")
    case "$#:${1:-}" in
    0: | 1:--plain-http) ;;
    2:--ca-file)
        grep -qs -- '-----BEGIN CERTIFICATE-----' "$2" || die "--ca-file: $2 is no readable PEM file with a certificate"
        ACCESS=(--ca-file "$(realpath "$2")")
        ;;
    *) die "unknown arguments $*: use --plain-http, --ca-file FILE, or none" ;;
    esac
    PROGRAMS="$(hack/programs.sh publish)"
}

# ask REPOSITORY COMMAND...: runs a command that uses the registry. If it fails, says which repository, what to do, and what the
# command has said.
ask() {
    local repository=$1 said rc=0
    shift
    said="$(mktemp)"
    timeout --kill-after=5 900 "$@" 2>"$said" || rc=$?
    if [ "$rc" -ne 0 ]; then
        sed 's/^/    | /' "$said" >&2
        set -- "$(advice "$said" "$rc")"
        rm -f "$said"
        die "$repository: $1"
    fi
    rm -f "$said"
}

# advice FILE CODE: prints what to do after a command ended with this code and this message.
advice() {
    local config="${DOCKER_CONFIG:-$HOME/.docker}/config.json"
    if grep -qiE 'unauthorized|\b(401|403)\b|denied|credential' "$1"; then
        echo "$HOST refuses this user: run docker login $HOST, or correct the login in $config, and see that it may write there"
    elif grep -qE 'unknown authority|certificate' "$1"; then
        echo "the certificate of $HOST is not trusted: pass its authority's with ARGS=\"--ca-file ca.crt\""
    elif grep -qE 'HTTP response to HTTPS client' "$1"; then
        echo "$HOST has no TLS: pass ARGS=--plain-http if you trust the network"
    elif [ "${ACCESS[*]}" = --plain-http ] && grep -qE '\b400\b|HTTPS server' "$1"; then
        echo "$HOST seems to have TLS: leave out --plain-http"
    elif grep -qiE 'not found|manifest unknown|name unknown' "$1"; then
        echo "it is not there: push it first with make publish, or correct REGISTRY"
    elif grep -qE 'connection refused|no such host|timeout|unreachable|server misbehaving' "$1" || [ "$2" -eq 124 ]; then
        echo "$HOST cannot be reached: correct REGISTRY, or see that it runs"
    else
        echo "$HOST refuses the request: see above"
    fi
}

# reference NAME:TAG: prints the reference by digest of what the registry has under that name.
reference() { ask "$REGISTRY/$1" "$PROGRAMS/oras" resolve --full-reference "${ACCESS[@]}" "$REGISTRY/$1"; }
