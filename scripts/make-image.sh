#!/usr/bin/env bash
# Makes Muster's container image: the binary, the libraries it needs, certificate authorities. It runs as user 65532 and
# needs nothing to write to, no shell and no rights.
#
#   scripts/make-image.sh [BINARY [ARCHIVE]]    default: build/release/bin/muster, build/image/muster.tar
#
# Its name is the one in manifests/base/kustomization.yaml.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
binary=${1:-$root/build/release/bin/muster}
archive=${2:-$root/build/image/muster.tar}
tag=$(sed -n 's/^  newTag: //p' "$root/manifests/base/kustomization.yaml")
stripped=$(mktemp)  # Debug information is seven tenths of it.
trap 'rm -f "$stripped"' EXIT
strip -o "$stripped" "$binary"
"$root/scripts/oci-image.sh" "$archive" "docker.io/library/muster:$tag" --user 65532:65532 --entrypoint /usr/bin/muster \
  "$stripped=/usr/bin/muster" /etc/ssl/certs/ca-certificates.crt
echo "$archive: image muster:$tag, $(du -m "$archive" | cut -f1) MB"
