# The steps of hack/conformance.sh, and how what they have made is removed.
# shellcheck shell=bash

# manifest: prints the quick start's StatefulSet and PersistentPodState.
manifest() {
    sed -n "/^kubectl apply -f - <<'END'$/,/^END$/{//!p}" "$REPO_DIR/docs/quick-start.md" >"$WORK/quick-start.yaml"
    grep -qx 'kind: StatefulSet' "$WORK/quick-start.yaml" || die "docs/quick-start.md has no StatefulSet where this script looks for it: correct the script"
    sed "${IMAGE:+s|image: .*|image: $IMAGE|}" "$WORK/quick-start.yaml"
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
    h test "$NAME" --namespace "$NAME" --timeout "${PATIENCE}s" || { k logs -n "$NAME" "$NAME-check-after" | without_ok; return 1; }
}
# without_ok: prints a check's table without what is right: only its last lines are shown.
without_ok() { awk '/^[A-Z0-9]/ { wrong = $1 != "OK" && $1 != "INFO" } wrong'; }

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
