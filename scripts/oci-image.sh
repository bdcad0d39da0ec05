#!/usr/bin/env bash
# Makes a container image from files of this machine, with the shared libraries they need and nothing else. It needs no
# registry, no container engine and no root. The same files give the same image.
#
#   scripts/oci-image.sh ARCHIVE NAME:TAG [--user UID] [--entrypoint WORD]… [--cmd WORD]… [--env N=V]… [--label N=V]… FILE|FILE=PATH…
#
# FILE is a file or a directory. It keeps its path in the image, or goes to PATH. `docker load`, `podman load`,
# `ctr images import` and `kind load image-archive` take ARCHIVE. This pushes it to a registry:
#   skopeo copy docker-archive:ARCHIVE docker://REGISTRY/NAME:TAG
set -euo pipefail

(($# >= 3)) || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
archive=$1 name=$2
shift 2
config=() files=()
while (($#)); do
  case $1 in
    --user) config+=(--config.user "$2"); shift ;;
    --entrypoint) config+=(--config.entrypoint "$2"); shift ;;
    --cmd) config+=(--config.cmd "$2"); shift ;;
    --env) config+=(--config.env "$2"); shift ;;
    --label) config+=(--config.label "$2"); shift ;;
    *) files+=("$1") ;;
  esac
  shift
done
for program in umoci skopeo; do
  command -v "$program" >/dev/null || { echo "$0: no program $program (scripts/install-deps.sh --image)" >&2; exit 1; }
done

work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
root=$work/root
"$(dirname "${BASH_SOURCE[0]}")/image-root.sh" "$root" "${files[@]}"

# All files have the same time: that of the last commit, unless the caller says another.
epoch=${SOURCE_DATE_EPOCH:-$(git -C "$(dirname "$0")" log -1 --format=%ct 2>/dev/null || echo 0)}
created=$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)
find "$root" -exec touch -h -d "@$epoch" {} +
layout=$work/layout tag=${name##*:} rootless=()
if ((EUID != 0)); then rootless=(--rootless); fi
umoci init --layout "$layout"
umoci new --image "$layout:$tag"
umoci insert "${rootless[@]}" --image "$layout:$tag" --history.created "$created" "$root" /
umoci config --image "$layout:$tag" --created "$created" --history.created "$created" --os linux \
  --architecture "$(dpkg --print-architecture)" "${config[@]}"
mkdir -p "$(dirname "$archive")"
rm -f "$archive.new"
skopeo copy --quiet "oci:$layout:$tag" "docker-archive:$archive.new:$name"
mv "$archive.new" "$archive"
