#!/usr/bin/env bash
# Makes the file tree of a container image: files of this machine, the shared libraries they need, /tmp, and nothing else.
#
#   scripts/image-root.sh ROOT FILE|FILE=PATH…
#
# ROOT is made. FILE is a file or a directory. It keeps its path in the image, or goes to PATH.
set -euo pipefail
root=$1
shift
mkdir -m 755 "$root"

# put FILE PATH: copies FILE to PATH, makes the directories on the way, and follows links.
put() {
  mkdir -p "$root/$(dirname "$2")"
  cp -RL --preserve=mode "$1" "$root/$2"
}
for file in "$@"; do
  put "${file%%=*}" "${file#*=}"
done
# The libraries that the loader would load for each program and library among the files.
while read -r library; do
  [[ -e $root/$library ]] || put "$library" "$library"
done < <(find "$root" -type f \( -perm -u+x -o -name '*.so*' \) -exec ldd {} + 2>/dev/null |
  sed -nE 's#^\s*(.* => )?(/[^ ]+) \(0x[0-9a-f]+\)$#\2#p' | grep -vF "$root" | sort -u)
install -d -m 1777 "$root/tmp"
