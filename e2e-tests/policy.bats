#!/usr/bin/env bats
# The policy as kwctl runs it: `make policy.wasm`, then `bats e2e-tests/policy.bats`. A few sessions for
# people to read; `cargo test -p pps-e2e --test sessions` plays back all of them.

setup() {
    cd "$BATS_TEST_DIRNAME/.."
    KWCTL="${KWCTL:-kwctl}"
    command -v "$KWCTL" >/dev/null || skip "kwctl is not installed (see https://docs.kubewarden.io/howtos/install-kwctl), and KWCTL does not name one"
    WASM="${PPS_POLICY_WASM:-policy.wasm}"
    [ -f "$WASM" ] || skip "there is no $WASM: run make policy.wasm"
}

# play CASE [OPTION...]: answers the request of a case as its session says. Only the answer is output;
# what kwctl says besides goes to $BATS_TEST_TMPDIR/log.
play() {
    local case=$1
    shift
    run bash -c '"$@" 2>"$0"' "$BATS_TEST_TMPDIR/log" \
        "$KWCTL" run --allow-context-aware \
        --replay-host-capabilities-interactions "e2e-tests/sessions/$case.yml" \
        --request-path "testdata/cases/$case/request.json" "$@" "$WASM"
    [ "$status" -eq 0 ] || cat "$BATS_TEST_TMPDIR/log"
    # kwctl exits with 0 even if the policy asked for something else.
    ! grep -E "Replay error|recorded responses is empty|have not been replayed" "$BATS_TEST_TMPDIR/log"
}

allowed() { [ "$(jq -r .allowed <<<"$output")" = "$1" ]; }
message() { [[ "$(jq -r .status.message <<<"$output")" == *"$1"* ]]; }
unchanged() { [ "$(jq -r '.patch // ""' <<<"$output")" = "" ]; }
patched() { jq -r '.patch // "" | @base64d' <<<"$output" | grep -q -- "$1"; }

@test "a Pod comes back to its zone" {
    play rule-05-pod-without-affinity
    allowed true
    patched '"key":"topology.kubernetes.io/zone"'
}

@test "a Pod that is created for the first time is left alone" {
    play rule-04-no-entry
    allowed true
    unchanged
}

@test "a Pod of a ReplicaSet causes no look-up" {
    play rule-01-owner-replicaset
    allowed true
    unchanged
}

@test "a look-up that fails keeps a Pod from starting elsewhere" {
    play failure-forbidden
    allowed false
    message "verb get on persistentpodstates.apps.kruise.io"
}

@test "with onLookupFailure=accept it starts without its state" {
    play failure-accepted --settings-json '{"onLookupFailure": "accept"}'
    allowed true
    [[ "$(jq -r '.warnings[0]' <<<"$output")" == *"without its state" ]]
}

@test "a weight that the API server would refuse in every Pod is refused in the object" {
    play pps-weight-zero
    allowed false
    message "spec.preferredPersistentTopology[1].weight is 0"
}

@test "all mistakes of an object are told at once" {
    play pps-all-at-once
    allowed false
    message "spec.targetRef.kind"
    message "spec.nodeDeletionPolicy"
}

@test "a second object for one workload is refused" {
    play pps-second-under-another-name
    allowed false
    message "it is already the target of PersistentPodState echo"
}

@test "a finalizer can be removed from an object that is wrong" {
    play pps-update-same-spec
    allowed true
}

@test "settings that are wrong are told" {
    run bash -c '"$@" 2>&1' _ "$KWCTL" run --request-path testdata/cases/rule-04-no-entry/request.json \
        --settings-json '{"lookup": "byname"}' "$WASM"
    [ "$status" -ne 0 ]
    [[ "$output" == *'settings.lookup is "byname": set it to "full" or "byName"'* ]]
}
