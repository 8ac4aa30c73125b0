# What hack/conformance.sh finds and checks before its first change.
# shellcheck shell=bash

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
