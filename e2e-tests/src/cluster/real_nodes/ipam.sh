#!/bin/sh
# An IPAM plugin that honours an address, as kube-ovn does: host-local, which is asked for the address in the Pod's
# annotation. Where that stays taken, or is of another node, the Pod gets a free one. The annotation then names the address.
config="$(cat)"

host_local() {
    printf %s "$config" | CNI_ARGS="IgnoreUnknown=1${1:+;IP=$1}" "$CNI_PATH/host-local"
}

# assign [ADDRESS]: assigns this address, or the next one. host-local goes on after the address that it assigned last, so that
# an address that was freed stays free for long. One that was asked for must not make it start again there.
assign() (
    folder="$(printf %s "$config" | tr -d '\n' | sed -n 's,.*"dataDir" *: *"\([^"]*\)".*,\1,p')"
    last="$folder/pods/last_reserved_ip.0"
    mkdir -p "$folder"
    exec 9>"$folder/lock"
    flock 9
    before="$(cat "$last" 2>/dev/null)"
    host_local "$1" || exit
    if [ -n "$1" ] && [ -n "$before" ]; then printf %s "$before" >"$last"; fi
)

# annotation KEY: the value of one of the Pod's annotations, which the container runtime passes.
annotation() {
    printf %s "$config" | tr -d '\n' | sed -n "s,.*\"$1\" *: *\"\([^\"]*\)\".*,\1,p"
}

argument() {
    printf %s "$CNI_ARGS" | tr ';' '\n' | sed -n "s/^$1=//p"
}

if [ "$CNI_COMMAND" != ADD ]; then host_local; exit; fi
case "$config" in
*"\"$NO_RESERVATION\""*) host_local; exit ;;
esac
asked="$(annotation "$IP_ANNOTATION")"
answer=
# Kubernetes may delete a Pod before the kubelet has freed its address.
tries=20
case "$config" in *"\"${asked%.*}.0/24\""*) ;; *) tries=1 ;; esac
while [ -n "$asked" ] && [ "$tries" -gt 0 ] && ! answer="$(assign "$asked")"; do
    # A failed attempt may have left an assignment.
    CNI_COMMAND=DEL host_local >/dev/null
    answer= tries=$((tries - 1))
    sleep 0.5
done
[ -n "$answer" ] || answer="$(assign)" || { printf %s "$answer"; exit 1; }
address="$(printf %s "$answer" | sed -n 's,.*"address" *: *"\([0-9.]*\)/.*,\1,p' | head -n 1)"
# Else the node would look for it at the former Pod's hardware address, for a quarter of a minute.
"$TOOLS/bin/busybox" ip neigh flush to "$address" dev cni0 >/dev/null 2>&1
if [ "$address" != "$asked" ]; then
    # The UID makes the patch fail on another Pod of the same name.
    "$PROGRAMS/kubectl" patch pod --namespace "$(argument K8S_POD_NAMESPACE)" "$(argument K8S_POD_NAME)" --patch \
        "{\"metadata\":{\"uid\":\"$(argument K8S_POD_UID)\",\"annotations\":{\"$IP_ANNOTATION\":\"$address\"}}}" >/dev/null || {
        CNI_COMMAND=DEL host_local >/dev/null
        echo '{"cniVersion":"0.4.0","code":11,"msg":"cannot write the annotation"}'
        exit 1
    }
fi
printf %s "$answer"
