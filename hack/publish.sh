#!/usr/bin/env bash
# Pushes the policy, the sidecar's image and the Helm chart to a registry, and prints their references by digest.
#
#   hack/publish.sh registry.example.com/pps
#   hack/publish.sh 127.0.0.1:5000 --plain-http       to a registry without TLS
#   hack/publish.sh 127.0.0.1:5000 --ca-file ca.crt   to a registry whose certificate a private authority has signed
#
# The login is Docker's (~/.docker/config.json, or the folder in DOCKER_CONFIG).
#
# ARCH="amd64 arm64"   the processors for which the sidecar's image is; both by default. With one, the image has no index.
# PARTS="policy image chart"   push only these parts.
# REVISION=COMMIT      the commit that the annotations name; by default HEAD, with -dirty if files have changed.
# SOURCE_DATE_EPOCH=SECONDS    the time of everything that is pushed; by default the commit's.
# PPS_POLICY_WASM, PPS_STATIC_SIDECAR and PPS_FOREIGN_SIDECAR name files, as elsewhere. PPS_VERSION is for tests.
set -euo pipefail
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/registry.sh"
cd "$REPO_DIR"
with_registry "$@"
PARTS=" ${PARTS:-policy image chart} "
VERSION="${PPS_VERSION:-$(project_version)}"
# Not exported: cargo would compile again for another time.
SOURCE_DATE_EPOCH="$(source_date_epoch)"
export TZ=UTC
WORK="$(mktemp -d "${TMPDIR:-/tmp}/pps-publish.XXXXXX")"
trap 'explain_end $?; rm -rf "$WORK"' EXIT

CREATED="$(date -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)"
if [ -z "${REVISION:-}" ]; then
    REVISION="$(git rev-parse HEAD)" || die "there is no git history: set REVISION and SOURCE_DATE_EPOCH"
    [ -z "$(git status --porcelain --untracked-files=no)" ] || REVISION+=-dirty
fi

# annotate OPTION TITLE DESCRIPTION: sets OPTIONS to annotations or labels, as arguments.
annotate() {
    local key=org.opencontainers.image value
    OPTIONS=()
    for value in "created=$CREATED" "description=$3" licenses=Apache-2.0 "revision=$REVISION" "source=$(owner_repository)" \
        "title=$2" "url=$(owner_repository)" "vendor=The PersistentPodState authors" "version=$VERSION"; do
        OPTIONS+=("$1" "$key.$value")
    done
}

# push NAME:TAG ARGUMENT...: pushes files of the work folder.
push() {
    local name=$1
    shift
    say "pushing $REGISTRY/$name"
    (cd "$WORK" && ask "$REGISTRY/$name" "$PROGRAMS/oras" push --no-tty "${ACCESS[@]}" "$REGISTRY/$name" "$@" >&2)
}

# As kwctl push does it, with the metadata's annotations of one line.
policy() {
    local name="policies/persistent-pod-state:v$VERSION" module="${PPS_POLICY_WASM:-policy.wasm}" line
    [ -f "$module" ] || die "$module is missing: run make policy.wasm"
    cp "$module" "$WORK/policy.wasm"
    echo -n '{}' >"$WORK/config.json"
    metadata() { sed -n "s/^  io\.kubewarden\.policy\.$1: //p" policy-metadata.yml; }
    annotate --annotation "$(metadata title)" "$(metadata description)"
    while IFS= read -r line; do OPTIONS+=(--annotation "$line"); done \
        < <(sed -nE '/: [|>]-?$/d; s/^  (io\.[a-zA-Z.]+): (.+)$/\1=\2/p' policy-metadata.yml)
    push "$name" --config config.json:application/vnd.wasm.config.v1+json "${OPTIONS[@]}" \
        policy.wasm:application/vnd.wasm.content.layer.v1+wasm
    reference "$name"
}

# has_docker: succeeds if a Docker daemon answers that can write images as files. Only its containerd image store can.
has_docker() { have docker && docker info --format '{{.DriverStatus}}' 2>/dev/null </dev/null | grep -q io.containerd.snapshotter; }

# build_image ARCH LABEL...: makes an OCI layout, $WORK/image-ARCH, with the tag ARCH.
build_image() {
    local arch=$1
    shift
    if has_docker; then
        SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" docker buildx build --quiet --platform "linux/$arch" --provenance=false \
            --sbom=false "$@" --tag "image:$arch" \
            --output "type=oci,tar=false,rewrite-timestamp=true,dest=$WORK/image-$arch" --file hack/Dockerfile "$WORK/context"
    else
        # An image of one copied file needs neither a daemon nor root; nothing of it is kept.
        local buildah=(env -u DOCKER_CONFIG -u REGISTRY_AUTH_FILE buildah --storage-driver vfs --root "$WORK/buildah" --runroot "$WORK/run")
        "${buildah[@]}" build --quiet --isolation chroot --platform "linux/$arch" --timestamp "$SOURCE_DATE_EPOCH" \
            --identity-label=false "$@" --tag "image:$arch" --file hack/Dockerfile "$WORK/context"
        "${buildah[@]}" push --quiet "image:$arch" "oci:$WORK/image-$arch:$arch"
    fi
}

image() {
    local repository="$REGISTRY/persistent-pod-state-sidecar" title=persistent-pod-state-sidecar arch file tag tags=()
    local description="Records where stateful Pods run, so that the PersistentPodState policy can bring them back"
    local arches
    read -ra arches <<<"${ARCH:-amd64 arm64}"
    has_docker || have buildah || need_packages buildah
    mkdir -p "$WORK/context"
    for arch in "${arches[@]}"; do
        file="$(hack/build-release.sh pps-sidecar "linux-$arch")"
        install -m 755 "$file" "$WORK/context/pps-sidecar-linux-$arch"
        touch -d "@$SOURCE_DATE_EPOCH" "$WORK/context/pps-sidecar-linux-$arch"
    done
    annotate --label "$title" "$description"
    for arch in "${arches[@]}"; do
        # Of several images each has a tag of its own, because registries may delete manifests without a tag.
        tag="v$VERSION"
        [ ${#arches[@]} -eq 1 ] || tag+="-$arch"
        tags+=("$tag")
        step "build the image for $arch" build_image "$arch" "${OPTIONS[@]}"
        say "pushing $repository:$tag"
        ask "$repository" "$PROGRAMS/oras" cp --no-tty --from-oci-layout "${ACCESS[@]/#--/--to-}" "$WORK/image-$arch:$arch" "$repository:$tag" >&2
    done
    if [ ${#tags[@]} -gt 1 ]; then
        annotate --annotation "$title" "$description"
        say "pushing $repository:v$VERSION"
        ask "$repository" "$PROGRAMS/oras" manifest index create "${ACCESS[@]}" "${OPTIONS[@]}" "$repository:v$VERSION" "${tags[@]}" >&2
    fi
    reference "$title:v$VERSION"
}

chart() {
    local name=charts/persistent-pod-state packed
    # helm writes the file's time into the manifest, and finds a chart by its version.
    packed="$(pack_chart "$WORK")"
    say "pushing $REGISTRY/$name:$VERSION"
    ask "$REGISTRY/$name" "$PROGRAMS/helm" push "${ACCESS[@]}" "$packed" "oci://$REGISTRY/charts" >&2
    # Artifact Hub finds the owners under this tag: https://artifacthub.io/docs/topics/repositories/helm-charts/
    cp artifacthub-repo.yml "$WORK"
    : >"$WORK/empty"
    push "$name:artifacthub.io" --config empty:application/vnd.cncf.artifacthub.config.v1+yaml \
        --annotation "org.opencontainers.image.created=$CREATED" \
        artifacthub-repo.yml:application/vnd.cncf.artifacthub.repository-metadata.layer.v1.yaml
    reference "$name:$VERSION"
}

# The policy is first: if the registry refuses it, no time is spent on building the sidecar.
for part in policy image chart; do
    [[ $PARTS != *" $part "* ]] || "$part"
done
