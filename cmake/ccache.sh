#!/usr/bin/env bash
# Runs the compiler by ccache, so that a checkout reuses what another one has compiled, wherever the two are:
#
#   ccache.sh ROOT UP COMPILER ARGUMENTS…
#
# ROOT is the project's folder and UP the way to it from the build folder, "../../". Paths below ROOT become relative,
# because ccache does not do that for all of CMake's arguments. A precompiled header holds absolute paths in any case. So
# it is compiled in each checkout, and beside it stands the sum of what it was made of: ccache reads that instead of it.
set -euo pipefail
root=$1 up=$2
shift 2
command=("${@/#"$root"\//$up}")
command=("${command[@]/#-I"$root"\//-I$up}")

if [[ " ${command[*]} " != *" -emit-pch "* ]]; then
  # What ccache cannot see in a precompiled header, and this project does not use: the time, and macros.
  export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_PCH_EXTSUM=1
  exec ccache "${command[@]}"
fi

"${command[@]}"
for ((i = 0; i < ${#command[@]}; ++i)); do
  case ${command[i]} in
    -MF) read_files=${command[i + 1]} ;;
    -o) header=${command[i + 1]} ;;
  esac
done
{
  printf '%s\n' "${command[@]}"
  sed -e '1s/^[^:]*://' -e 's/\\$//' "$read_files" | xargs cat
} | sha256sum >"$header.sum"
