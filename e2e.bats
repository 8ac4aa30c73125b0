#!/usr/bin/env bats
# The policy in kwctl: run `make annotated-policy.wasm`, then `bats e2e.bats`. These sessions are examples for
# readers; with KWCTL=…, `cargo test -p pps-e2e --test sessions` replays all cases.

setup() {
    cd "$BATS_TEST_DIRNAME"
    KWCTL="${KWCTL:-kwctl}"
    command -v "$KWCTL" >/dev/null || skip "kwctl is not installed (see https://docs.kubewarden.io/howtos/install-kwctl), and KWCTL does not name one"
    WASM="${PPS_POLICY_WASM:-annotated-policy.wasm}"
    [ -f "$WASM" ] || skip "there is no $WASM: run make annotated-policy.wasm"
}

# play CASE [OPTION...]: evaluates the request of a case and replays its session. Outputs only the answer; kwctl's
# messages are in $BATS_TEST_TMPDIR/log.
play() {
    local case=$1
    shift
    run bash -c '"$@" 2>"$0"' "$BATS_TEST_TMPDIR/log" \
        "$KWCTL" run --allow-context-aware \
        --replay-host-capabilities-interactions "e2e-tests/sessions/$case.yml" \
        --request-path "testdata/cases/$case/request.json" "$@" "$WASM"
    [ "$status" -eq 0 ] || cat "$BATS_TEST_TMPDIR/log"
    # kwctl also exits with 0 if the policy made other host calls.
    ! grep -E "Replay error|recorded responses is empty|have not been replayed" "$BATS_TEST_TMPDIR/log"
}

allowed() { [ "$(jq -r .allowed <<<"$output")" = "$1" ]; }
message() { [[ "$(jq -r .status.message <<<"$output")" == *"$1"* ]]; }
unchanged() { [ "$(jq -r '.patch // ""' <<<"$output")" = "" ]; }
patched() { jq -r '.patch // "" | @base64d' <<<"$output" | grep -q -- "$1"; }

@test "pins a Pod to its recorded zone" {
    play rule-05-pod-without-affinity
    allowed true
    patched '"key":"topology.kubernetes.io/zone"'
}

@test "does not change a Pod without a recorded state" {
    play rule-04-no-entry
    allowed true
    unchanged
}

@test "makes no lookup for a Pod of a ReplicaSet" {
    play rule-01-owner-replicaset
    allowed true
    unchanged
}

@test "refuses a Pod when the lookup fails" {
    play failure-forbidden
    allowed false
    message "verb get on persistentpodstates.apps.kruise.io"
}

@test "accepts a Pod when the lookup fails with onLookupFailure=accept" {
    play failure-accepted --settings-json '{"onLookupFailure": "accept"}'
    allowed true
    [[ "$(jq -r '.warnings[0]' <<<"$output")" == "this Pod starts without its recorded state: "* ]]
}

@test "refuses a weight of 0" {
    play pps-weight-zero
    allowed false
    message "spec.preferredPersistentTopology[1].weight is 0"
}

@test "reports all errors of an object at once" {
    play pps-all-at-once
    allowed false
    message "spec.targetRef.kind"
    message "spec.nodeDeletionPolicy"
}

@test "refuses a second object for a workload" {
    play pps-second-through-the-alias
    allowed false
    message "it is already the target of PersistentPodState echo"
}

@test "allows an update that does not change an invalid spec" {
    play pps-update-same-spec
    allowed true
}

@test "refuses invalid settings" {
    run bash -c '"$@" 2>&1' _ "$KWCTL" run --request-path testdata/cases/rule-04-no-entry/request.json \
        --settings-json '{"onLookupFailure": "ignore"}' "$WASM"
    [ "$status" -ne 0 ]
    [[ "$output" == *'settings.onLookupFailure: unknown variant `ignore`, expected `reject` or `accept`'* ]]
}
