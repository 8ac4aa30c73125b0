#!/usr/bin/env bash
# Signs with cosign what was pushed and FOLDER/SHA256SUMS, and attests the software bills of materials. Then verifies all as
# users do.
#
#   hack/sign.sh FOLDER <REFERENCES                      without a key, in GitHub Actions
#   hack/sign.sh FOLDER --key cosign.key <REFERENCES     with a key; cosign.pub must be beside it
#
# With a key nothing is written to Sigstore's public log.
#
# REFERENCES is the output of `make publish`: immutable references, one on a line. FOLDER has what `make release` wrote.
#
# COSIGN=PROGRAM   use this cosign (3.0 or newer); by default that of the PATH, else hack/programs.sh builds one
# SSL_CERT_FILE    the authority of the registry, if it is a private one
set -euo pipefail
. "$(dirname "$0")/common.sh"
FOLDER="${1:-}"
[ -n "$FOLDER" ] || die "no folder given: run hack/sign.sh dist <references.txt"
shift
COSIGN="$("$REPO_DIR/hack/programs.sh" sign)/cosign"

OLDER_FORMAT=(--new-bundle-format=false) SIGN_OLDER=(--use-signing-config=false)
case "${1:-}" in
--key)
    KEY="${2:-}"
    [ -f "$KEY" ] || die "--key names $KEY, which does not exist"
    SERVICES="$(mktemp "${TMPDIR:-/tmp}/pps-services.XXXXXX")"
    trap 'explain_end $?; rm -f "$SERVICES"' EXIT
    SIGN=(--key "$KEY" --signing-config "$SERVICES") SIGN_OLDER+=(--key "$KEY" --tlog-upload=false)
    VERIFY=(--key "${KEY%.key}.pub" --insecure-ignore-tlog)
    ;;
"")
    [ -n "${GITHUB_WORKFLOW_REF:-}" ] || die "without a key this works only in GitHub Actions: pass --key cosign.key"
    SIGN=()
    VERIFY=(--certificate-identity "${GITHUB_SERVER_URL:-https://github.com}/$GITHUB_WORKFLOW_REF"
        --certificate-oidc-issuer https://token.actions.githubusercontent.com)
    ;;
*) die "unknown argument $1: use --key FILE, or none" ;;
esac

# attest SBOM REFERENCE
attest() {
    [ -f "$1" ] || die "$1 is missing: run make release"
    "$COSIGN" attest --yes "${SIGN[@]}" --type cyclonedx --predicate "$1" "$2"
    "$COSIGN" verify-attestation "${VERIFY[@]}" --type cyclonedx "$2" >/dev/null
}

# sign REFERENCE
sign() {
    local reference=$1 sbom
    # Twice: PolicyServers and kwctl read only the older format, a tag `sha256-….sig`, and cosign 3 writes another one unless
    # it is told not to.
    "$COSIGN" sign --yes "${OLDER_FORMAT[@]}" "${SIGN_OLDER[@]}" "$reference"
    "$COSIGN" verify "${OLDER_FORMAT[@]}" "${VERIFY[@]}" "$reference" >/dev/null
    "$COSIGN" sign --yes "${SIGN[@]}" "$reference"
    "$COSIGN" verify "${VERIFY[@]}" "$reference" >/dev/null
    case "$reference" in
    */policies/persistent-pod-state@*)
        attest "$FOLDER/policy-sbom.cdx.json" "$reference"
        ;;
    */persistent-pod-state-sidecar@*)
        for sbom in "$FOLDER"/pps-sidecar-linux-*-sbom.cdx.json; do attest "$sbom" "$reference"; done
        ;;
    esac
}

mapfile -t REFERENCES < <(grep -E '@sha256:[0-9a-f]{64}$')
[ ${#REFERENCES[@]} -gt 0 ] || die "no reference with a digest on stdin: pass the output of make publish"
# It names no service, so that nothing is sent to a log.
[ -z "${SERVICES:-}" ] || "$COSIGN" signing-config create --out "$SERVICES"
for reference in "${REFERENCES[@]}"; do
    say "signing $reference"
    # cosign must not read the list.
    sign "$reference" </dev/null
done
"$COSIGN" sign-blob --yes "${SIGN[@]}" --bundle "$FOLDER/SHA256SUMS.sigstore" "$FOLDER/SHA256SUMS" </dev/null
"$COSIGN" verify-blob "${VERIFY[@]}" --bundle "$FOLDER/SHA256SUMS.sigstore" "$FOLDER/SHA256SUMS" </dev/null >/dev/null
