# Helpers for the scripts in this folder. Source it; it runs nothing by itself, but says where a script has failed.
# shellcheck shell=bash

# A command that fails without a word, or that somebody kills, must not look as if nothing had happened.
set -E
trap 'FAILED_AT="${BASH_SOURCE[0]:-$0}:$LINENO: $BASH_COMMAND"' ERR
trap 'explain_end $?' EXIT

# With it, `cd` could go elsewhere, and would print where.
unset CDPATH
REPO_DIR="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
CACHE_DIR="${PPS_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/persistent-pod-state}"
[[ $CACHE_DIR = /* ]] || CACHE_DIR="$REPO_DIR/$CACHE_DIR"

# die says why, and ends with this code, so that no script that has called another says it again.
EXPLAINED=99

say() { printf '\033[1m==>\033[0m %s\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit "$EXPLAINED"; }

# explain_end CODE: says that the script has failed, unless die has said why.
explain_end() {
    [ "$1" -eq 0 ] || [ "$1" -eq "$EXPLAINED" ] || printf 'error: %s ended with code %d%s\n' "$0" "$1" "${FAILED_AT:+ at $FAILED_AT}" >&2
}

# step LABEL COMMAND...: runs a slow command with its output in a log and shows that it is alive. On failure it
# prints the end of the log.
step() {
    local label=$1; shift
    local log start pid rc=0 seconds
    mkdir -p "$CACHE_DIR/logs"
    log="$(mktemp "$CACHE_DIR/logs/step.XXXXXX")"
    start=$SECONDS
    "$@" >"$log" 2>&1 </dev/null &
    pid=$!
    trap 'kill "$pid" 2>/dev/null || true; printf "    %s: stopped by a signal. Its output until then: %s\n" "$label" "$log" >&2; exit "$EXPLAINED"' HUP INT TERM
    while kill -0 "$pid" 2>/dev/null; do
        seconds=$((SECONDS - start))
        if [ -t 2 ]; then
            printf '\r    %s … %d s %s\033[K' "$label" "$seconds" "$(last_line "$log")" >&2
        elif [ $((seconds % 15)) -eq 14 ]; then
            printf '    %s … %d s %s\n' "$label" "$seconds" "$(last_line "$log")" >&2
        fi
        if [ "$seconds" -gt 2 ]; then sleep 1; else sleep 0.1; fi || true
    done
    wait "$pid" || rc=$?
    trap - HUP INT TERM
    [ -t 2 ] && printf '\r\033[K' >&2
    if [ "$rc" -ne 0 ]; then
        printf '    %s: failed after %d s. The end of its output:\n' "$label" "$((SECONDS - start))" >&2
        tail -n 40 "$log" | sed 's/^/    | /' >&2
        printf '    The whole output: %s\n' "$log" >&2
        [ "$rc" -le 128 ] || printf '    It was ended by signal %d: somebody, or the kernel for want of memory, has killed it.\n' $((rc - 128)) >&2
        return "$rc"
    fi
    rm -f "$log"
    printf '    %s: done in %d s\n' "$label" "$((SECONDS - start))" >&2
}

# last_line FILE: prints what a command has written last, as far as a terminal has space for it beside the rest.
last_line() { tail -c 400 "$1" | tr -d '\033' | tr '\r' '\n' | sed -n '$s/^ *\(.\{0,40\}\).*/(\1)/p'; }

have() { command -v "$1" >/dev/null 2>&1; }

# need_packages PACKAGE...: installs the Debian packages that are missing. Without root it says what to install
# and exits.
need_packages() {
    local missing=() package
    have dpkg-query || die "this machine has no dpkg: install what these Debian packages contain, then try again: $*"
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return 0
    if [ "$(id -u)" -ne 0 ]; then
        printf 'error: these Debian packages are missing, and only root can install them. Run:\n\n    sudo apt-get update && sudo apt-get install -y %s\n\nthen try again.\n' "${missing[*]}" >&2
        exit "$EXPLAINED"
    fi
    say "installing Debian packages: ${missing[*]}"
    step "apt-get update" apt-get -q update || true
    DEBIAN_FRONTEND=noninteractive step "apt-get install" \
        apt-get -q install -y --no-install-recommends "${missing[@]}" \
        || die "apt-get could not install: ${missing[*]}"
}

# with_lock NAME COMMAND...: runs the command while no other process of this user runs one under the same name.
with_lock() {
    local name=$1; shift
    mkdir -p "$CACHE_DIR" || die "$CACHE_DIR cannot be made: set PPS_CACHE_DIR to a folder for what is built once"
    (
        flock -n 9 || { say "waiting for another process that prepares the $name"; flock 9; }
        "$@"
    ) 9>"$CACHE_DIR/.$name.lock"
}

# The oldest Rust that builds this project: rust-version in Cargo.toml.
min_rust() { sed -n 's/^rust-version = "\(.*\)"/\1/p' "$REPO_DIR/Cargo.toml"; }

# is_recent RUSTC: succeeds if this compiler is new enough.
is_recent() {
    local version
    version="$("$1" --version 2>/dev/null | cut -d' ' -f2)" && [ -n "$version" ] \
        && printf '%s\n%s\n' "$(min_rust)" "$version" | sort -V -C
}

# with_cargo: sets CARGO (and RUSTC, if necessary) to a cargo that is new enough: the one on the PATH, or rustup's,
# or Debian's, which it installs if there is no other.
with_cargo() {
    have cargo || PATH="$HOME/.cargo/bin:$PATH"
    if have cargo && have rustc && is_recent rustc; then
        need_linker
        CARGO=cargo
        return
    fi
    need_packages cargo-web rustc-web gcc libc6-dev
    export RUSTC=/usr/bin/rustc RUSTDOC=/usr/bin/rustdoc
    CARGO=/usr/bin/cargo
    is_recent "$RUSTC" || die "Rust $(min_rust) or newer is needed, this machine has $(rustc --version 2>/dev/null || echo none): install it with rustup (https://rustup.rs)"
}

# with_cargo_tool NAME VERSION: puts a program of crates.io first on the PATH; cargo builds it once. Call with_cargo before.
with_cargo_tool() {
    local folder="$CACHE_DIR/tools/$1-$2"
    build_tool() {
        # Another process may have built it while this one waited.
        [ ! -d "$folder" ] || return 0
        rm -rf "$folder.new"
        step "build $1 (once)" env -u CARGO_TARGET_DIR "$CARGO" install --quiet --locked --root "$folder.new" "$1@$2"
        mv "$folder.new" "$folder"
    }
    [ -d "$folder" ] || with_lock "$1" build_tool "$@" >&2
    PATH="$folder/bin:$PATH"
}

# native_arch: prints the name of this machine's processor in images.
native_arch() {
    case "$(uname -m)" in
    x86_64) echo amd64 ;;
    aarch64) echo arm64 ;;
    *) die "this machine's processor is $(uname -m): images are made for amd64 and arm64 only" ;;
    esac
}

# foreign_arch: prints the other one of amd64 and arm64.
foreign_arch() {
    local native
    native="$(native_arch)" || return 1
    if [ "$native" = amd64 ]; then echo arm64; else echo amd64; fi
}

# rust_target PLATFORM: prints Rust's name of a platform for which a program is released.
rust_target() {
    case "$1" in
    linux-amd64) echo x86_64-unknown-linux-musl ;;
    linux-arm64) echo aarch64-unknown-linux-musl ;;
    darwin-amd64) echo x86_64-apple-darwin ;;
    darwin-arm64) echo aarch64-apple-darwin ;;
    windows-amd64) echo x86_64-pc-windows-gnullvm ;;
    windows-arm64) echo aarch64-pc-windows-gnullvm ;;
    *) die "unknown platform $1: use linux, darwin or windows, then -amd64 or -arm64" ;;
    esac
}

# owner_registry, owner_repository: where released images are, and the URL of this repository, as Cargo.toml says.
owner_registry() { sed -n 's/^registry = "\(.*\)"/\1/p' "$REPO_DIR/Cargo.toml"; }
owner_repository() { sed -n 's/^repository = "\(.*\)"/\1/p' "$REPO_DIR/Cargo.toml"; }

# project_version: prints the version in Cargo.toml.
project_version() { sed -n 's/^version = "\(.*\)"/\1/p' "$REPO_DIR/Cargo.toml"; }

# source_date_epoch: prints the time that all files of a release get: SOURCE_DATE_EPOCH, else that of the commit.
source_date_epoch() {
    local seconds="${SOURCE_DATE_EPOCH:-}"
    [ -n "$seconds" ] || seconds="$(git -C "$REPO_DIR" log -1 --format=%ct)" || die "there is no git history: set SOURCE_DATE_EPOCH"
    [[ "$seconds" =~ ^[0-9]+$ ]] || die "SOURCE_DATE_EPOCH is $seconds: set it to a number of seconds since 1970"
    echo "$seconds"
}

# pack_chart FOLDER: packs the Helm chart into the folder and prints the path. helm writes the files' times, which are set to the
# commit's: the same files give the same bytes.
pack_chart() {
    local name=persistent-pod-state stage packed
    stage="$(mktemp -d)"
    packed="$1/$name-$(project_version).tgz"
    cp -r "$REPO_DIR/charts/$name" "$stage"
    chmod -R u=rwX,go=rX "$stage"
    find "$stage" -exec touch -d "@$(source_date_epoch)" {} +
    "$(cd "$REPO_DIR" && hack/programs.sh publish)/helm" package --destination "$1" "$stage/$name" >/dev/null
    rm -r "$stage"
    touch -d "@$(source_date_epoch)" "$packed"
    echo "$packed"
}

need_linker() { have cc || need_packages gcc libc6-dev; }

# need_browser: Chromium and its WebDriver, which the tests drive.
need_browser() {
    if have chromedriver && { have chromium-headless-shell || have chromium || have chromium-browser || have google-chrome; }; then return 0; fi
    need_packages chromium-headless-shell chromium-driver fonts-dejavu-core
}
