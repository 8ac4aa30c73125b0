#!/usr/bin/env bash
# Packs kubectl-pps with its man page, the completion for kubectl and the licence, and prints the archive's path. The same
# files give the same bytes.
#
#   hack/pack-kubectl-pps.sh PROGRAM linux-amd64 FOLDER   a tar.gz in FOLDER
#   hack/pack-kubectl-pps.sh --krew FOLDER                krew's manifest, FOLDER/pps.yaml, for all archives in FOLDER
set -euo pipefail
. "$(dirname "$0")/common.sh"
cd "$REPO_DIR"
VERSION="$(project_version)"

pack() {
    local archive="$3/kubectl-pps-$VERSION-$2.tar.gz" stage suffix=""
    [[ $2 != windows-* ]] || suffix=.exe
    stage="$(mktemp -d)"
    trap 'rm -rf "$stage"' RETURN
    install -m 755 "$1" "$stage/kubectl-pps$suffix"
    install -m 755 crates/kubectl-pps/kubectl_complete-pps "$stage"
    install -m 644 LICENSE crates/kubectl-pps/kubectl-pps.1 "$stage"
    tar --create --directory "$stage" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --format=ustar . |
        gzip --no-name >"$archive"
    realpath "$archive"
}

# https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/
krew() {
    local folder=$1 archive file os arch binary repository
    repository="$(owner_repository)"
    cat <<YAML
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: pps
spec:
  version: v$VERSION
  homepage: $repository
  shortDescription: Explain, forecast and move stateful Pods
  description: |
    Says why stateful Pods are where they are or why they are Pending, forecasts
    where they go when nodes are drained or lost, and moves them. Works with
    PersistentPodStates, which bring Pods back to their nodes, zones and addresses.
  caveats: |
    The cluster needs PersistentPodState for Kubewarden: kubectl pps check
    How to set up completion: kubectl pps completion --help
  platforms:
YAML
    for archive in "$folder"/kubectl-pps-"$VERSION"-*; do
        [ -f "$archive" ] || die "there is no archive of kubectl-pps $VERSION in $folder"
        file="${archive##*/}"
        IFS=- read -r os arch <<<"$(sed -e "s/^kubectl-pps-$VERSION-//" -e 's/\.tar\.gz$//' <<<"$file")"
        binary=kubectl-pps
        [ "$os" = windows ] && binary=kubectl-pps.exe
        cat <<YAML
    - selector:
        matchLabels:
          os: $os
          arch: $arch
      uri: $repository/releases/download/v$VERSION/$file
      sha256: $(sha256sum "$archive" | cut -d' ' -f1)
      bin: $binary
YAML
    done
}

case "$#:${1:-}" in
2:--krew)
    krew "$2" >"$2/pps.yaml.new"
    mv "$2/pps.yaml.new" "$2/pps.yaml"
    realpath "$2/pps.yaml"
    ;;
3:*) pack "$@" ;;
*) die "use: hack/pack-kubectl-pps.sh PROGRAM OS-ARCH FOLDER, or hack/pack-kubectl-pps.sh --krew FOLDER" ;;
esac
