#!/usr/bin/env bash
# Prints the manifests of deploy/ for `kubectl apply -f -`, with the images that `make publish` has pushed to a registry,
# by digest. Asks the registry for the digests, so it may run on another machine than `make publish`.
#
#   hack/manifests.sh registry.example.com/pps                     deploy/
#   OVERLAY=monitoring hack/manifests.sh registry.example.com/pps  deploy/overlays/monitoring
#   hack/manifests.sh 127.0.0.1:5000 --plain-http                  a registry without TLS, also for the PolicyServer
#   hack/manifests.sh 127.0.0.1:5000 --ca-file ca.pem              a registry with an authority of its own, likewise
#   hack/manifests.sh --values registry.example.com/pps            instead the values for the Helm chart
set -euo pipefail
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/registry.sh"
cd "$REPO_DIR"
VALUES=
if [ "${1:-}" = --values ]; then VALUES=1; shift; fi
with_registry "$@"
# The field of the PolicyServer that says how to connect to the registry, and its value as JSON.
FIELD='' VALUE=''
case "${ACCESS[0]:-}" in
--plain-http) FIELD=insecureSources VALUE="[\"$HOST\"]" ;;
--ca-file) FIELD=sourceAuthorities VALUE="{\"$HOST\": [\"$(awk '{printf "%s\\n", $0}' "${ACCESS[1]}")\"]}" ;;
esac
FOLDER="deploy${OVERLAY:+/overlays/$OVERLAY}"
[ -f "$FOLDER/kustomization.yaml" ] \
    || die "OVERLAY is $OVERLAY: use one of $(cd deploy/overlays && echo *), or none"

VERSION="$(project_version)"
MODULE="$(reference "policies/persistent-pod-state:v$VERSION")"
IMAGE="$(reference "persistent-pod-state-sidecar:v$VERSION")"
if [ -n "$VALUES" ]; then
    cat <<EOF
# The names that the documents use.
fullnameOverride: pps
image:
  repository: ${IMAGE%@*}
  digest: ${IMAGE#*@}
policy:
  module:
    repository: ${MODULE%@*}
    digest: ${MODULE#*@}
EOF
    [ -z "$FIELD" ] || printf 'policyServer:\n  %s: %s\n' "$FIELD" "$VALUE"
    exit 0
fi

WORK="$(realpath "$(mktemp -d "${TMPDIR:-/tmp}/pps-manifests.XXXXXX")")"
trap 'rm -rf "$WORK"' EXIT
# For kustomize the policy is not a container image.
cat >"$WORK/kustomization.yaml" <<EOF
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
- $(realpath --relative-to="$WORK" "$FOLDER")
images:
- name: $(owner_registry)/persistent-pod-state-sidecar
  newName: ${IMAGE%@*}
  digest: ${IMAGE#*@}
patches:
- target: {kind: ClusterAdmissionPolicy}
  patch: |
    - op: replace
      path: /spec/module
      value: registry://$MODULE
EOF
[ -z "$FIELD" ] || cat >>"$WORK/kustomization.yaml" <<EOF
- target: {kind: PolicyServer}
  patch: |
    - op: add
      path: /spec/$FIELD
      value: $VALUE
EOF
RENDERED="$("$PROGRAMS/kustomize" build "$WORK")"
printf '%s\n' "$RENDERED"
[ -z "$FIELD" ] || grep -qx 'kind: PolicyServer' <<<"$RENDERED" \
    || say "$FOLDER has no PolicyServer: set spec.$FIELD in the one that runs the policies, else it cannot pull them"
