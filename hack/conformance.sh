#!/usr/bin/env bash
# Shows that the product works on a cluster with Kubewarden: installs the chart, goes through docs/quick-start.md, lets Pods be
# created again, and removes everything but the definition. It changes nothing that it has not made, but drains a node if one
# is named. Needs kubectl, helm, and the rights of an administrator.
#
#   REGISTRY=registry.example.com/pps hack/conformance.sh [--plain-http | --ca-file FILE]   what `make publish` has pushed
#   VALUES="registry.yaml own.yaml" hack/conformance.sh       the chart's values, instead of REGISTRY or in addition
#   hack/conformance.sh --clean-up                            removes what a run has left that was killed
#
# CONTEXT=NAME       the kubeconfig's context; the current one by default
# NODE=NAME          also drains this node, which evicts all its Pods, and opens it again
# IMAGE=REFERENCE    the image of the workload's Pods; the quick start's by default
# PATIENCE=SECONDS   how long one wait may take; 180 by default
# YES=1              does not ask on a terminal
set -euo pipefail
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/conformance-checks.sh"
. "$(dirname "$0")/conformance-steps.sh"

# The release, its namespace, and the start of all other names.
NAME=pps-conformance
WORKLOADS=$NAME-workloads
# Only the script's own namespaces have this label. The annotation names the node that a run has closed.
MARK=persistent-pod-state/conformance CLOSED=persistent-pod-state/closed-node
DEFINITION=persistentpodstates.apps.kruise.io
INJECTED='kruise\.io/injected-persistent-pod-state'
ROUNDS=2
PATIENCE="${PATIENCE:-180}"

# --- Commands, each with a time limit ----------------------------------------------------------------------------------

limited() { timeout --foreground --kill-after=5 "$@"; }
k() { limited $((PATIENCE + 10)) kubectl --context "$CONTEXT" "$@"; }
h() { limited $((2 * PATIENCE)) helm --kube-context "$CONTEXT" "$@"; }

# show ARGUMENT...: prints what kubectl get prints, and nothing if there is no such object. Ends the script if it cannot know:
# call it alone, or in an assignment.
show() {
    limited 20 kubectl --context "$CONTEXT" get --ignore-not-found "$@" 2>"$WORK/error" \
        || die "kubectl get $1 fails on the context $CONTEXT: $(last_error). See that this is the right cluster (CONTEXT, KUBECONFIG), and that you are its administrator"
}

last_error() { grep . "$WORK/error" | tail -n 1 | cut -c 1-300 | grep . || echo "no answer in time"; }

# until_true COMMAND...: waits until a command succeeds.
until_true() {
    local end=$((SECONDS + PATIENCE))
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || { echo "not within $PATIENCE s: $*"; return 1; }
        sleep 0.5
    done
}

# --- Steps, each with its title ----------------------------------------------------------------------------------------

# announce TEXT: says what comes, and asks if somebody is there.
announce() {
    local answer
    printf '%s\n' "cluster     $SERVER (context $CONTEXT), Kubernetes $KUBERNETES" \
        "Kubewarden  in the namespace $KUBEWARDEN, PolicyServer $SERVER_IMAGE" "$1"
    [ -t 0 ] && [ "${YES:-}" != 1 ] || return 0
    read -rp "Go on? [y/N] " answer
    [[ $answer = [yY]* ]] || die "nothing was changed"
}

# attempt TITLE COMMAND...: runs a step, and says how it ended. If it has failed, shows why, and ends the script.
attempt() {
    local title=$1 start=$SECONDS rc=0
    shift
    # In the background: so a signal is handled at once, and not when the step has ended.
    (set -e; "$@") >"$WORK/step" 2>&1 </dev/null &
    CHILD=$!
    wait "$CHILD" || rc=$?
    CHILD=
    if [ "$rc" -eq 0 ]; then
        echo "passed: $title ($((SECONDS - start)) s)"
        return
    fi
    echo "failed: $title (after $((SECONDS - start)) s)"
    { tail -n 20 "$WORK/step"; evidence 2>&1; } | cut -c 1-400 | sed 's/^/    | /' || true
    FAILED="failed: $title. The lines after that say why; if Pods wait, see that nodes can pull their images, and the PolicyServer the policy"
    exit "$EXPLAINED"
}

# evidence: prints what does not run, and why.
evidence() {
    local server="kubewarden/policy-server=$NAME"
    local pod='{.metadata.namespace}/{.metadata.name}: {.status.phase}{range .status.containerStatuses[*]}, ready: {.ready} {.state.waiting.reason} {.state.waiting.message}{end}{"\n"}'
    k get pods -n "$NAME" -o jsonpath="{range .items[*]}$pod{end}"
    k get pods -n "$WORKLOADS" -o jsonpath="{range .items[*]}$pod{end}"
    k get pods -n "$KUBEWARDEN" -l "$server" -o jsonpath="{range .items[*]}$pod{end}"
    k logs -n "$KUBEWARDEN" -l "$server" --tail 50 --prefix | grep -v 'request{' | grep -E -A 1 'ERROR|rror:|panic' | tail -n 6
    k get events -n "$WORKLOADS" --field-selector type=Warning -o jsonpath='{range .items[*]}{.involvedObject.name}: {.message}{"\n"}{end}' | sort -u | tail -n 5
}

# --- The end, also of a run that failed or was killed ------------------------------------------------------------------

# clean_up: removes everything that this or a former run has made. What cannot be removed does not stop it.
clean_up() {
    local step failed=''
    for step in open_node remove_policies remove_release remove_namespaces remove_what_came_late; do
        if ! ("$step") >"$WORK/$step" 2>&1 </dev/null; then
            failed+=" $step"
            tail -n 3 "$WORK/$step" | cut -c 1-400 | sed "s/^/    | $step: /"
        fi
    done
    if [ -n "$failed" ]; then
        echo "error: not everything is removed ($failed has failed): see that Kubewarden's controller runs, then repeat make conformance ARGS=--clean-up"
        return 1
    fi
    echo "removed: everything that the script has made, but the definition $DEFINITION"
}

say_what_stays() {
    local found
    found="$(show crd "$DEFINITION" -o jsonpath='{.metadata.annotations.meta\.helm\.sh/release-name}')"
    [ "$found" = "$NAME" ] || return 0
    cat <<END
What stays is the definition of PersistentPodState, without objects. Helm refuses to install the product over it: delete it.
    kubectl --context $CONTEXT get persistentpodstates --all-namespaces     # must say: No resources found
    kubectl --context $CONTEXT delete crd $DEFINITION
END
}

# end_step: ends the step that runs, with all its processes. A process that has only begun may miss a signal, and what helm
# creates after the clean-up would stay.
end_step() {
    local signal attempt
    [ -n "${CHILD:-}" ] || return 0
    for signal in TERM KILL; do
        for ((attempt = 0; attempt < 50; attempt++)); do
            kill -s "$signal" -- "-$CHILD" || return 0
            sleep 0.2
        done
    done
}

# finish CODE: ends what still runs, and removes what was made.
finish() {
    set +e
    trap 'echo "still removing what was made: wait"' HUP INT TERM
    end_step 2>/dev/null
    [ "$1" -le 128 ] || FAILED="stopped by a signal"
    if [ -n "${CHANGED:-}" ]; then
        echo "${FAILED:+${FAILED%%:*}; }removing what was made …"
        clean_up && say_what_stays
    fi
    if [ -n "$FAILED" ]; then echo "error: $FAILED" >&2; else explain_end "$1"; fi
    rm -rf "$WORK"
}

FAILED=''
WORK="$(mktemp -d "${TMPDIR:-/tmp}/pps-conformance.XXXXXX")"
trap 'finish $?' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 141' PIPE
trap 'exit 143' TERM
# Each step is a process group of its own, which a signal ends as a whole.
set -m

find_cluster
find_kubewarden
if [ "${1:-}" = --clean-up ]; then
    LEFT="$(show namespaces -l "$MARK" -o name)"
    if [ -n "$LEFT" ]; then
        announce "This removes the release $NAME with its namespace and $WORKLOADS, and opens the node that a run has closed."
        clean_up || exit "$EXPLAINED"
    else
        echo "nothing to remove from $SERVER (context $CONTEXT)"
    fi
    say_what_stays
    exit
fi
check_rights
check_is_free
check_node
set_values "$@"
manifest >"$WORK/workload.yaml"
announce "This script
- installs the chart as the release $NAME in a namespace of that name, with a PolicyServer and the definition $DEFINITION
- runs a StatefulSet of three Pods in the namespace $WORKLOADS, and deletes its Pods
${NODE:+- drains the node $NODE: ALL its Pods but those of DaemonSets are evicted, and lose their emptyDir volumes; then opens it
}- removes all of this but the definition"

# It is also the lock: another run cannot make it, and removes nothing of this one.
attempt "the namespace $NAME is made" make_namespace "$NAME"
CHANGED=1
attempt "the namespace $WORKLOADS is made" make_namespace "$WORKLOADS" "persistent-pod-state/injection: enabled"
attempt "the chart is installed; the sidecar and the policies work" install
attempt "helm test finds no error" check_installation
attempt "the quick start's three Pods run, and are recorded" run_workload
attempt "deleted at once, $ROUNDS times, the three Pods return to their nodes" create_again
attempt "a wrong PersistentPodState is refused" refuse_what_is_wrong
if [ -n "${NODE:-}" ]; then
    attempt "a Pod runs on $NODE, and is recorded" run_on_node
    attempt "$NODE is drained; the Pod waits for it" drain
    attempt "$NODE is open again; its Pods have returned" return_to_node
fi
attempt "the product is uninstalled; the recorded states stay" uninstall
attempt "the namespaces are gone" remove_namespaces
CHANGED=
echo "passed: everything in $SECONDS s, with Kubernetes $KUBERNETES and $SERVER_IMAGE"
say_what_stays
