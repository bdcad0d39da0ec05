#!/usr/bin/env bash
# One real node (real_node.h): containerd, a kubelet and a plugin for GPUs that are not there. The first process of a pid
# namespace, in a mount namespace of its own: when it ends, all that it started ends. Arguments are image archives.
set -euo pipefail
cd "$NODE_DIRECTORY"
fail() { echo "node $NODE_NAME: $*"; exit 1; }

# Fixed paths of kubelet, containerd and CNI lie in these; the rest of the machine is only read.
mkdir -p lib log layers/{lower,upper,work,merged}
mount --bind lib /var/lib
mount --bind log /var/log
mount -t tmpfs tmpfs /run
mkdir -p /run/lock

# Where layers cannot be stacked (a node inside a container), each image is unpacked whole.
snapshotter=native
if mount -t overlay overlay -o lowerdir=layers/lower,upperdir=layers/upper,workdir=layers/work layers/merged 2>/dev/null; then
  umount layers/merged
  snapshotter=overlayfs
fi
sed -i "s/SNAPSHOTTER/$snapshotter/" containerd.toml

# until_there SECONDS COMMAND…
until_there() {
  local end=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || fail "waited in vain for: $*"
    sleep 0.1
  done
}

import=(ctr -n k8s.io images import)
if [[ -n $NODE_CONTAINERD ]]; then
  PATH=$NODE_CONTAINERD:$PATH
  import+=(--local)  # its other way unpacks for overlayfs only
fi
containerd --config containerd.toml >containerd.log 2>&1 &
until_there 30 ctr version
for image in "$@"; do
  "${import[@]}" --snapshotter "$snapshotter" "$image"
done

"$NODE_CONTROLPLANE" kubelet --config=kubelet.yaml --kubeconfig="$NODE_KUBECONFIG" --hostname-override="$NODE_NAME" \
  --node-ip="$NODE_ADDRESS" --node-labels="$NODE_LABELS" >kubelet.log 2>&1 &
if ((NODE_GPUS > 0)); then
  until_there 60 test -S /var/lib/kubelet/device-plugins/kubelet.sock
  "$NODE_GPU_PLUGIN" --count "$NODE_GPUS" --prefix "GPU-$NODE_NAME-" --numa "$NODE_NUMA" \
    --cdi="$NODE_CDI" >gpu-plugin.log 2>&1 &
fi
wait -n || true
fail "one of its programs ended"
