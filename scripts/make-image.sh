#!/usr/bin/env bash
# Makes Muster's container image: the binary, the libraries it needs, certificate authorities, time zones. It runs as user 65532 and
# needs nothing to write to, no shell and no rights.
#
#   scripts/make-image.sh [BINARY [ARCHIVE]]    default: build/release/bin/muster, build/image/muster.tar
#
# Beside it is what it is made of, as SPDX: build/image/muster.spdx.json. Its name is the one in manifests/base/kustomization.yaml.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
binary=${1:-$root/build/release/bin/muster}
archive=${2:-$root/build/image/muster.tar}
tag=$(sed -n 's/^  newTag: //p' "$root/manifests/base/kustomization.yaml")
stripped=$(mktemp)  # Debug information is seven tenths of it.
trap 'rm -f "$stripped"' EXIT
strip -o "$stripped" "$binary"
label=org.opencontainers.image
"$root/scripts/oci-image.sh" "$archive" "docker.io/library/muster:$tag" --user 65532:65532 --entrypoint /usr/bin/muster \
  --label "$label.title=muster" --label "$label.version=$tag" --label "$label.licenses=Apache-2.0" \
  --label "$label.revision=$(git -C "$root" rev-parse HEAD 2>/dev/null || echo unknown)" \
  "$stripped=/usr/bin/muster" /etc/ssl/certs/ca-certificates.crt /usr/share/zoneinfo
"$root/scripts/make-sbom.py" "$binary" "$tag" >"${archive%.tar}.spdx.json"
echo "$archive: image muster:$tag, $(du -m "$archive" | cut -f1) MB"
