#!/usr/bin/env bash
# Prints the path of a program that runs static executables of the processor that this machine does not have (arm64 or
# amd64): qemu's user mode emulator.
#
# PPS_EMULATOR=PROGRAM  use this one. The default is qemu's on the PATH.
#
# If there is none, the script unpacks Debian's into the user's cache. It installs nothing and changes no setting of the
# kernel.
set -euo pipefail
. "$(dirname "$0")/common.sh"
case "$(foreign_arch)" in
arm64) NAME=qemu-aarch64 ;;
*) NAME=qemu-x86_64 ;;
esac
TARGET="$CACHE_DIR/tools/$NAME-static"

unpack() {
    (cd "$WORK" && apt-get -q -o APT::Sandbox::User=root download qemu-user-static && dpkg-deb -x qemu-user-static_*.deb unpacked)
    install -D -m 755 "$WORK/unpacked/usr/bin/$NAME-static" "$TARGET.new"
    mv "$TARGET.new" "$TARGET"
}

prepare() {
    [ ! -x "$TARGET" ] || return 0
    have apt-get || die "install qemu's user mode emulator ($NAME), or set PPS_EMULATOR to it"
    WORK="$(mktemp -d "${TMPDIR:-/tmp}/pps-emulator.XXXXXX")"
    trap 'rm -rf "$WORK"' EXIT
    apt-cache show qemu-user-static >/dev/null 2>&1 || [ "$(id -u)" -ne 0 ] || step "apt-get update" apt-get -q update
    step "unpack qemu-user-static (63 MB, once)" unpack
}

for program in "${PPS_EMULATOR:-}" "$NAME-static" "$NAME"; do
    if [ -n "$program" ] && command -v "$program"; then exit 0; fi
    [ "$program" != "${PPS_EMULATOR:-}" ] || [ -z "$program" ] \
        || die "PPS_EMULATOR names $program, which does not exist: set it to a program, or unset it"
done
with_lock emulator prepare >&2
echo "$TARGET"
