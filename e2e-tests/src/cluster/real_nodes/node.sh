#!/bin/sh
# The bridge of a cluster, and its nodes in namespaces of their own. When the first process of a node is killed, the
# kernel kills all others, also those of Pods, and removes its network and mounts: that is a loss of power. Its disk
# is $FOLDER. All addresses are of 198.18.0.0/15, which is reserved for tests of networks.
#   node.sh network          makes the bridge; fails if another cluster has the INDEX
#   node.sh port NODE STATE  unplugs a node from the bridge (down), or plugs it in again (up)
#   node.sh start            runs node number NUMBER of COUNT, in a network and a mount namespace that the caller made
#   node.sh boot             the node's first process, in its process namespace
# A node's Pods get addresses of SUBNET, from Calico's plugin if CALICO_CNI names it.
# CLUSTER is the cluster's folder, PROGRAMS has the kubelet, TOOLS the unpacked container runtime.
set -eu

BRIDGE="pps-e2e-$INDEX" NETWORK=198.18 FIRST=$((INDEX * 8)) NODE="real-${NUMBER:-}"
FOLDER="$CLUSTER/$NODE" GROUP="$BRIDGE/$NODE"

make_network() {
    ip="$TOOLS/bin/busybox ip"
    $ip link add "$BRIDGE" type bridge
    # What is left when all processes are gone. The supervisor runs this, or the next one if it was killed.
    cat >"$CLUSTER/cleanup" <<C
for try in 1 2 3 4 5; do
    find /sys/fs/cgroup/$BRIDGE /sys/fs/cgroup/*/$BRIDGE -depth -type d 2>/dev/null | xargs -r rmdir 2>/dev/null && break
    sleep 0.2
done
# At last: this frees the INDEX.
$ip link del $BRIDGE
C
    $ip addr add "$NETWORK.$FIRST.1/24" dev "$BRIDGE"
    $ip link set "$BRIDGE" up
    for number in 1 2 3 4 5 6 7; do
        $ip route add "$NETWORK.$((FIRST + number)).0/24" via "$NETWORK.$FIRST.1$number"
    done
    mkdir -p "$CLUSTER/registries" "$CLUSTER/plugins"
    ln -s "$TOOLS/usr/lib/cni/bridge" "$TOOLS/usr/lib/cni/host-local" "$TOOLS/usr/lib/cni/loopback" "$CLUSTER/plugins"
    [ -z "$CALICO_CNI" ] || for name in calico calico-ipam; do ln -s "$CALICO_CNI" "$CLUSTER/plugins/$name"; done
    mv "$CLUSTER/ipam.sh" "$CLUSTER/plugins/"
    chmod 755 "$CLUSTER/plugins/ipam.sh"
}

# The link to the bridge. The other end goes to the namespace of the supervisor, which has started this process.
connect() {
    outside="nsenter --net=/proc/$PPID/ns/net $TOOLS/bin/busybox ip"
    inside="$TOOLS/bin/busybox ip"
    # The kernel may not have removed the link of a node that has just lost its power.
    $outside link del "$BRIDGE-$NUMBER" 2>/dev/null || true
    $inside link add eth0 type veth
    $inside link set veth0 name "$BRIDGE-$NUMBER"
    $inside link set "$BRIDGE-$NUMBER" netns "$PPID"
    $outside link set "$BRIDGE-$NUMBER" master "$BRIDGE"
    $outside link set "$BRIDGE-$NUMBER" up
    $inside link set lo up
    $inside addr add "$NETWORK.$FIRST.1$NUMBER/24" dev eth0
    $inside link set eth0 up
    $inside route add default via "$NETWORK.$FIRST.1"
    other=1
    while [ "$other" -le "$COUNT" ]; do
        [ "$other" = "$NUMBER" ] || $inside route add "$NETWORK.$((FIRST + other)).0/24" via "$NETWORK.$FIRST.1$other"
        other=$((other + 1))
    done
}

# A control group of its own, which is the root for the kubelet.
control_groups() {
    # Those of a node that has lost its power: the kubelet takes 1.5 s for each.
    find "/sys/fs/cgroup/$GROUP" /sys/fs/cgroup/*/"$GROUP" -mindepth 1 -depth -type d -exec rmdir {} + 2>/dev/null || true
    if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
        mkdir -p "/sys/fs/cgroup/$GROUP"
        for folder in "" "/${GROUP%/*}" "/$GROUP"; do
            echo "+cpu +cpuset +memory +pids" >"/sys/fs/cgroup$folder/cgroup.subtree_control"
        done
        return
    fi
    for controller in /sys/fs/cgroup/*; do
        [ -e "$controller/cgroup.procs" ] || continue
        for folder in "$controller/${GROUP%/*}" "$controller/$GROUP"; do
            mkdir -p "$folder"
            # These two are not inherited.
            for file in cpuset.cpus cpuset.mems; do
                [ ! -e "$folder/$file" ] || cat "$folder/../$file" >"$folder/$file"
            done
        done
    done
}

share() {
    mount --bind "$1" "$2"
    mount --make-rshared "$2"
}

configure() {
    mkdir -p "$FOLDER/cni"
    if [ -n "$CALICO_CNI" ]; then
        plugin='"type": "calico", "datastore_type": "kubernetes", "nodename_file_optional": true, "mtu": 1500,
  "nodename": "'"$NODE"'", "kubernetes": {"kubeconfig": "'"$KUBECONFIG"'"}, "policy": {"type": "k8s"}, "ipam": {"type": "calico-ipam"}'
    else
        plugin='"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
  "capabilities": {"io.kubernetes.cri.pod-annotations": true}, "ipam": {"type": "ipam.sh", "dataDir": "'"$FOLDER"'/addresses",
    "ranges": [[{"subnet": "'"$SUBNET"'"}]], "routes": [{"dst": "0.0.0.0/0"}]}'
    fi
    echo '{"cniVersion": "0.4.0", "name": "pods", "plugins": [{'"$plugin"'}]}' >"$FOLDER/cni/pods.conflist"
    cat >"$FOLDER/containerd.toml" <<C
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "$IMAGE"
  disable_apparmor = true
  # Without CAP_SYS_RESOURCE nobody may lower the score.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$CLUSTER/plugins"
    conf_dir = "$FOLDER/cni"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "$CLUSTER/registries"
C
    cat >"$FOLDER/kubelet.yaml" <<C
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
cgroupRoot: /$GROUP
failSwapOn: false
# Pods get 512 MiB of the machine's memory.
systemReserved: {memory: $(($(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo) - 512 * 1024))Ki}
evictionHard: {memory.available: 64Mi, nodefs.available: 1%, imagefs.available: 1%}
# A machine whose disk is nearly full keeps the images: they come from no registry.
imageGCHighThresholdPercent: 100
evictionPressureTransitionPeriod: 1s
address: $NETWORK.$FIRST.1$NUMBER
resolvConf: ""
makeIPTablesUtilChains: false
nodeStatusUpdateFrequency: 1s
nodeStatusReportFrequency: 1m
nodeLeaseDurationSeconds: 4
volumePluginDir: /var/lib/kubelet/volume-plugins
C
    # On other file systems the kubelet cannot measure a node's disk. It then has to be told so, and evicts nothing.
    case "$(stat -f -c %T "$FOLDER")" in ext*|xfs|btrfs|overlay*|tmpfs) measurable=true ;; *) measurable=false ;; esac
    cat >>"$FOLDER/kubelet.yaml" <<C
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
failCgroupV1: false
localStorageCapacityIsolation: $measurable
C
    cat >"$FOLDER/proxy.yaml" <<C
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clientConnection: {kubeconfig: $KUBECONFIG}
hostnameOverride: $NODE
conntrack: {maxPerCore: 0, min: 0}
C
}

# Runs a program, and starts it again when it ends.
keep() {
    log=$1; shift
    while :; do "$@" >>"$FOLDER/$log.log" 2>&1 || true; sleep 1; done &
}

case "$1" in
network) make_network ;;
port) exec "$TOOLS/bin/busybox" ip link set "$BRIDGE-${2#real-}" "$3" ;;
start)
    mkdir -p "$FOLDER/lib/kubelet" "$FOLDER/lib/containerd" "$FOLDER/log"
    connect
    control_groups
    mount -t tmpfs tmpfs /run
    share "$FOLDER/lib" /var/lib
    share "$FOLDER/log" /var/log
    exec unshare --pid --fork --kill-child --mount-proc sh "$0" boot
    ;;
boot)
    cat /proc/sys/kernel/random/uuid >/run/boot_id
    mount --bind /run/boot_id /proc/sys/kernel/random/boot_id
    echo 1 >/proc/sys/net/ipv4/ip_forward
    # Nobody has released the addresses of the Pods that lost their power.
    rm -f "$FOLDER/addresses/pods/"[0-9]*
    configure
    libraries="$(cd "$TOOLS/usr/lib" && echo *-linux-gnu*)"
    export PATH="$TOOLS/usr/sbin:$TOOLS/usr/bin:$TOOLS/sbin:$PATH"
    export LD_LIBRARY_PATH="$TOOLS/usr/lib/$libraries:$TOOLS/lib/$libraries" XTABLES_LIBDIR="$TOOLS/usr/lib/$libraries/xtables"
    keep containerd containerd -c "$FOLDER/containerd.toml"
    until ctr version >/dev/null 2>&1; do sleep 0.1; done
    images="$(ctr -n k8s.io images ls -q)"
    [ -n "$images" ] || ctr -n k8s.io images import "$TOOLS/image.tar"
    keep kube-proxy "$PROGRAMS/kube-proxy" --config "$FOLDER/proxy.yaml"
    keep kubelet "$PROGRAMS/kubelet" --config="$FOLDER/kubelet.yaml" --kubeconfig="$KUBECONFIG" \
        --hostname-override="$NODE" --node-ip="$NETWORK.$FIRST.1$NUMBER" --node-labels="topology.kubernetes.io/zone=zone-$NUMBER"
    [ -n "$images" ] || ctr -n k8s.io images import "$TOOLS/database.tar"
    wait
    ;;
esac
