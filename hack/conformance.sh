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

# --- Before the first change -------------------------------------------------------------------------------------------

find_cluster() {
    local tool
    for tool in kubectl helm timeout; do have "$tool" || die "$tool is not on the PATH: install it"; done
    [[ $PATIENCE =~ ^[1-9][0-9]{0,3}$ ]] || die "PATIENCE is $PATIENCE: use a number of seconds from 1 to 9999"
    CONTEXT="${CONTEXT:-$(kubectl config current-context 2>/dev/null)}" \
        || die "there is no kubeconfig with a current context: set KUBECONFIG and CONTEXT"
    SERVER="$(kubectl --context "$CONTEXT" config view --minify -o jsonpath='{.clusters[0].cluster.server}' 2>/dev/null)" \
        || die "CONTEXT is $CONTEXT, which the kubeconfig does not have: use one of $(kubectl config get-contexts -o name | paste -sd' ')"
    limited 20 kubectl --context "$CONTEXT" version >"$WORK/version" 2>"$WORK/error" \
        || die "$SERVER (context $CONTEXT) does not answer: $(last_error). See that this is the right cluster (CONTEXT, KUBECONFIG)"
    KUBERNETES="$(sed -n 's/^Server Version: //p' "$WORK/version")"
}

find_kubewarden() {
    local found
    found="$(show crd policyservers.policies.kubewarden.io -o name)"
    [ -n "$found" ] \
        || die "there is no Kubewarden on $SERVER (context $CONTEXT): install it first (docs/quick-start.md), or name another CONTEXT"
    SERVER_IMAGE="$(show policyserver default -o jsonpath='{.spec.image}')"
    [ -n "$SERVER_IMAGE" ] || die "there is no PolicyServer default, whose image is used: install it with Kubewarden's charts"
    KUBEWARDEN="$(show validatingwebhookconfiguration kubewarden-controller-validating-webhook-configuration \
        -o jsonpath='{.webhooks[*].clientConfig.service.namespace}')"
    KUBEWARDEN="${KUBEWARDEN%% *}"
    [ -n "$KUBEWARDEN" ] || die "Kubewarden's controller has no webhook kubewarden-controller-validating-webhook-configuration: see that its chart is installed"
}

check_rights() {
    local rights=("create namespaces" "create deployments.apps" "create customresourcedefinitions.apiextensions.k8s.io"
        "create clusterroles.rbac.authorization.k8s.io" "create clusterrolebindings.rbac.authorization.k8s.io"
        "create flowschemas.flowcontrol.apiserver.k8s.io" "create policyservers.policies.kubewarden.io"
        "create clusteradmissionpolicies.policies.kubewarden.io" "delete clusteradmissionpolicies.policies.kubewarden.io"
        "delete pods") right
    [ -z "${NODE:-}" ] || rights+=("patch nodes" "create pods --subresource=eviction")
    for right in "${rights[@]}"; do
        # shellcheck disable=SC2086 # Words.
        limited 20 kubectl --context "$CONTEXT" auth can-i $right --all-namespaces >"$WORK/error" 2>&1 \
            || die "the user of the context $CONTEXT may not $right (kubectl auth can-i: $(last_error)): use an administrator's kubeconfig"
    done
}

# Refuses where the product, its objects, or the script's own names are already there.
check_is_free() {
    local found namespace
    found="$(show namespaces -l "$MARK" -o name)"
    [ -z "$found" ] \
        || die "a run has not ended: it still runs, or was killed. If it was, remove what it left with make conformance ARGS=--clean-up"
    for namespace in "$NAME" "$WORKLOADS"; do
        found="$(show namespace "$namespace" -o name)"
        [ -z "$found" ] || die "the namespace $namespace exists, and no run has made it: delete it first, or use another cluster"
    done
    found="$(show deployments,clusteradmissionpolicies --all-namespaces -l app.kubernetes.io/part-of=persistent-pod-state -o name)"
    [ -z "$found" ] \
        || die "the product is installed on $SERVER already (${found%%$'\n'*}): use a cluster without it; kubectl pps check checks an installation"
    found="$(show crd "$DEFINITION" -o jsonpath='{.metadata.annotations.meta\.helm\.sh/release-name}/{.metadata.name}')"
    [ -n "$found" ] || return 0
    [ "$found" = "$NAME/$DEFINITION" ] \
        || die "the definition $DEFINITION exists, and no run has made it: use a cluster without it. To delete it would delete all recorded states"
    found="$(show persistentpodstates --all-namespaces -o name)"
    [ -z "$found" ] || die "there are PersistentPodStates (${found%%$'\n'*}): use a cluster without them"
}

check_node() {
    local state nodes
    [ -n "${NODE:-}" ] || return 0
    state="$(show node "$NODE" -o jsonpath='{.spec.unschedulable}/{.status.conditions[?(@.type=="Ready")].status}')"
    case "$state" in
    /True) ;;
    "") nodes="$(show nodes -o name)" && die "NODE is $NODE, and there is no such node: use one of $(paste -sd' ' <<<"${nodes//node\//}")" ;;
    true/*) die "NODE is $NODE, which is closed for Pods already: open it (kubectl uncordon $NODE), or use another" ;;
    *) die "NODE is $NODE, which is not Ready: use another" ;;
    esac
    nodes="$(show nodes -o jsonpath='{range .items[*]}open{.spec.unschedulable}{"\n"}{end}')"
    [ "$(grep -cx open <<<"$nodes")" -ge 2 ] || die "NODE is $NODE, the only node that is open for Pods: leave it out"
}

# set_values ARGUMENT...: sets OPTIONS, helm's options. The arguments say how to connect to REGISTRY.
set_values() {
    local file repository="${SERVER_IMAGE%@*}" tag=''
    [ -n "${REGISTRY:-}${VALUES:-}" ] \
        || die "which images? Set REGISTRY to where make publish has pushed them, or VALUES to files of the chart's values"
    [ -n "${REGISTRY:-}" ] || [ $# -eq 0 ] || die "unknown arguments $*: without REGISTRY there is only --clean-up"
    OPTIONS=()
    if [ -n "${REGISTRY:-}" ]; then
        "$REPO_DIR/hack/manifests.sh" --values "$REGISTRY" "$@" >"$WORK/registry.yaml" || exit "$EXPLAINED"
        OPTIONS+=(--values "$WORK/registry.yaml")
    fi
    for file in ${VALUES:-}; do
        [ -r "$file" ] || die "VALUES names $file, which is no readable file"
        OPTIONS+=(--values "$file")
    done
    # The image of Kubewarden's own PolicyServer, and names that nothing else has.
    if [[ ${repository##*/} = *:* ]]; then tag="${repository##*:}" repository="${repository%:*}"; fi
    OPTIONS+=(--set-string "nameOverride=$NAME,fullnameOverride=$NAME,namespaceOverride=,policyServer.name="
        --set-string "policyServer.namespace=$KUBEWARDEN,policyServer.image.repository=$repository,policyServer.image.tag=$tag")
    [[ $SERVER_IMAGE != *@* ]] || OPTIONS+=(--set-string "policyServer.image.digest=${SERVER_IMAGE#*@}")
    h template "$NAME" "$REPO_DIR/charts/persistent-pod-state" --namespace "$NAME" "${OPTIONS[@]}" >/dev/null 2>"$WORK/error" \
        || die "helm cannot render the chart with these values: $(last_error)"
}

# manifest: prints the quick start's StatefulSet and PersistentPodState.
manifest() {
    sed -n "/^kubectl apply -f - <<'END'$/,/^END$/{//!p}" "$REPO_DIR/docs/quick-start.md" >"$WORK/quick-start.yaml"
    grep -qx 'kind: StatefulSet' "$WORK/quick-start.yaml" || die "docs/quick-start.md has no StatefulSet where this script looks for it: correct the script"
    sed "${IMAGE:+s|image: .*|image: $IMAGE|}" "$WORK/quick-start.yaml"
}

# announce TEXT: says what comes, and asks if somebody is there.
announce() {
    local answer
    printf '%s\n' "cluster     $SERVER (context $CONTEXT), Kubernetes $KUBERNETES" \
        "Kubewarden  in the namespace $KUBEWARDEN, PolicyServer $SERVER_IMAGE" "$1"
    [ -t 0 ] && [ "${YES:-}" != 1 ] || return 0
    read -rp "Go on? [y/N] " answer
    [[ $answer = [yY]* ]] || die "nothing was changed"
}

# --- Steps -------------------------------------------------------------------------------------------------------------

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

# make_namespace NAME [LABEL]: fails if there is one of this name.
make_namespace() {
    k create -f - <<END
apiVersion: v1
kind: Namespace
metadata: {name: $1, labels: {$MARK: "true"${2:+, $2}}}
END
}

install() {
    h install "$NAME" "$REPO_DIR/charts/persistent-pod-state" --namespace "$NAME" --timeout "${PATIENCE}s" "${OPTIONS[@]}" >"$WORK/notes"
    k rollout status -n "$NAME" "deployment/$NAME-sidecar" --timeout "${PATIENCE}s"
    k wait --for condition=PolicyActive clusteradmissionpolicies -l "app.kubernetes.io/instance=$NAME" --timeout "${PATIENCE}s"
}

check_installation() {
    h test "$NAME" --namespace "$NAME" --timeout "${PATIENCE}s" || { k logs -n "$NAME" "$NAME-check-after"; return 1; }
}

run_workload() {
    k apply -n "$WORKLOADS" -f "$WORK/workload.yaml"
    k rollout status -n "$WORKLOADS" statefulset/db --timeout "${PATIENCE}s"
    until_true is_recorded db 3
    places >"$WORK/places"
}

# is_recorded PPS COUNT: whether so many states are recorded.
is_recorded() { [ "$(k get pps "$1" -n "$WORKLOADS" -o jsonpath='{.status.recorded}')" = "$2" ]; }

# pods JSONPATH: prints a line for each Pod of db.
pods() { k get pods -n "$WORKLOADS" -l app=db -o jsonpath="{range .items[*]}$1{\"\\n\"}{end}" | sort; }
places() { pods '{.metadata.name} {.spec.nodeName}'; }

create_again() {
    local round
    for ((round = 1; round <= ROUNDS; round++)); do
        pods '{.metadata.uid}' >"$WORK/former"
        k delete pods -n "$WORKLOADS" -l app=db --timeout "${PATIENCE}s"
        until_true are_back
        are_at_home
        # Chance may bring a Pod back, too: each must have been given its recorded state.
        [ "$(pods "{.metadata.annotations.$INJECTED}" | grep -c .)" -eq 3 ] || { echo "a Pod was not given its recorded state"; return 1; }
    done
}
# are_back: whether three Pods are Ready that are not the former ones.
are_back() {
    [ "$(pods '{.metadata.uid} {.status.conditions[?(@.type=="Ready")].status}' | grep -vFf "$WORK/former" | grep -c ' True$')" -eq 3 ]
}
are_at_home() { places | diff "$WORK/places" - || { echo "Pods are on other nodes (<: recorded, >: now)"; return 1; }; }

# A dry run on the server asks the policies, and stores nothing.
refuse_what_is_wrong() {
    cat >"$WORK/wrong.yaml" <<END
apiVersion: apps.kruise.io/v1alpha1
kind: PersistentPodState
metadata: {name: wrong, namespace: $WORKLOADS}
spec:
  targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: wrong}
  persistentPodAnnotations: [{key: no annotation key}]
END
    until_true is_refused || { cat "$WORK/answer"; return 1; }
}
is_refused() {
    k create --dry-run=server -f "$WORK/wrong.yaml" >"$WORK/answer" 2>&1 || grep -q 'PersistentPodState wrong is refused' "$WORK/answer"
}

# A StatefulSet of one Pod that prefers NODE: it starts there, and while NODE is closed it would start elsewhere.
run_on_node() {
    local preference="[{weight: 100, preference: {matchFields: [{key: metadata.name, operator: In, values: [$NODE]}]}}]"
    sed "s/\bdb\b/drained/g; s/replicas: 3/replicas: 1/
        s/^\( *\)containers:/\1affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: $preference}}\n&/" \
        "$WORK/workload.yaml" >"$WORK/drained.yaml"
    k apply -n "$WORKLOADS" -f "$WORK/drained.yaml"
    k rollout status -n "$WORKLOADS" statefulset/drained --timeout "${PATIENCE}s"
    until_true is_recorded drained 1
    [ "$(drained '{.spec.nodeName}')" = "$NODE" ] \
        || { echo "drained-0 runs on $(drained '{.spec.nodeName}'): $NODE has a taint, or no room for it. Use another NODE"; return 1; }
    drained '{.metadata.uid}' >"$WORK/former"
}
drained() { k get pod drained-0 -n "$WORKLOADS" --ignore-not-found -o jsonpath="$1"; }
is_created_again() { drained '{.metadata.uid}' | grep -vxFf "$WORK/former"; }
is_ready_on_node() { [ "$(drained '{.spec.nodeName} {.status.conditions[?(@.type=="Ready")].status}')" = "$NODE True" ]; }

drain() {
    k annotate namespace "$NAME" "$CLOSED=$NODE"
    k drain "$NODE" --ignore-daemonsets --delete-emptydir-data --timeout "${PATIENCE}s" \
        || { echo "a disruption budget or a Pod without a controller may be in the way: use another NODE"; return 1; }
    until_true is_created_again
    # Time for the scheduler to place it elsewhere.
    sleep 5
    [ -z "$(drained '{.spec.nodeName}')" ] || { echo "drained-0 has started on $(drained '{.spec.nodeName}')"; return 1; }
}

return_to_node() {
    open_node
    until_true is_ready_on_node
    k rollout status -n "$WORKLOADS" statefulset/db --timeout "${PATIENCE}s"
    are_at_home
}

# --- The end, also of a run that failed or was killed ------------------------------------------------------------------

open_node() {
    local node
    node="$(k get namespace "$NAME" --ignore-not-found -o jsonpath="{.metadata.annotations.$CLOSED}")" || return
    [ -z "$node" ] || { k uncordon "$node" && k annotate namespace "$NAME" "$CLOSED-"; }
}

# As deploy/README.md says: the policies first, so that they refuse no Pod meanwhile.
remove_policies() {
    k delete clusteradmissionpolicies -l "app.kubernetes.io/instance=$NAME" --timeout "${PATIENCE}s" && until_true have_no_webhooks
}
have_no_webhooks() {
    k get mutatingwebhookconfigurations,validatingwebhookconfigurations -o name >"$WORK/webhooks" \
        && ! grep -E "/clusterwide-$NAME(-validation)?$" "$WORK/webhooks"
}

remove_release() {
    h uninstall "$NAME" --namespace "$NAME" --ignore-not-found --wait --timeout "${PATIENCE}s" \
        && k delete clusterroles,clusterrolebindings "$NAME-check-before" "$NAME-check-after" --ignore-not-found
}
# What the release has outside of the script's namespaces, which are deleted as a whole.
CLUSTER_WIDE=clusteradmissionpolicies,policyservers,flowschemas,clusterroles,clusterrolebindings
is_nothing_left() {
    k get "$CLUSTER_WIDE" -l "app.kubernetes.io/instance=$NAME" -o name >"$WORK/left" \
        && k get serviceaccounts -n "$KUBEWARDEN" -l "app.kubernetes.io/instance=$NAME" -o name >>"$WORK/left" \
        && ! grep . "$WORK/left"
}
# Helm of a run that was killed may go on, and create objects of a release that is uninstalled already.
remove_what_came_late() {
    k delete "$CLUSTER_WIDE" -l "app.kubernetes.io/instance=$NAME" --timeout "${PATIENCE}s" \
        && k delete serviceaccounts -n "$KUBEWARDEN" -l "app.kubernetes.io/instance=$NAME" --timeout "${PATIENCE}s" \
        && until_true is_nothing_left
}

uninstall() {
    remove_policies
    remove_release
    until_true is_nothing_left
    is_recorded db 3 || { echo "recorded states are gone"; return 1; }
}

remove_namespaces() {
    local ours
    ours="$(k get namespaces -l "$MARK" -o name)" || return
    ours="$(grep -xE "namespace/($NAME|$WORKLOADS)" <<<"$ours")" || return 0
    # shellcheck disable=SC2086 # Words.
    k delete $ours --timeout "${PATIENCE}s"
}

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
