#!/usr/bin/env bash
# Builds a release twice, in two folders of different names and without a compiler cache, and compares each file byte by byte, as well as
# the programs in the packages.
# usage: installer/release/reproducible.sh [--libraries] [VERSION]      (exit code 1: a file differs)
# --libraries: builds the libraries of etwagent.exe twice, too, and compares them; else both builds link those of the cache.
set -euo pipefail

here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
source=$(readlink -f "$here/../..")
libraries=
if [ "${1:-}" = --libraries ]; then
    libraries=yes
    shift
fi
version=${1:-0.0.1}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CCACHE_DISABLE=1
for copy in one another-longer-name; do
    git clone -q --no-hardlinks "$source" "$work/$copy"
    if [ -n "$libraries" ]; then
        export EA_DEPS_CACHE=$work/$copy/windows-libraries
    fi
    "$work/$copy/installer/release/build.sh" "$version" "$work/out-$copy" >"$work/log-$copy" 2>&1 || { tail -n 30 "$work/log-$copy" >&2; exit 1; }
    cp "$work/$copy/build/release/collector/app/etwcollector" "$work/$copy/build/windows/service/app/etwagent.exe" "$work/out-$copy/"
    if [ -n "$libraries" ]; then
        cp "$EA_DEPS_CACHE"/lib/*.a "$work/out-$copy/"
    fi
done
differ=0 same=0
for file in "$work/out-one"/*; do
    other=$work/out-another-longer-name/${file##*/}
    if cmp -s "$file" "$other"; then
        same=$((same + 1))
    else
        differ=$((differ + 1))
        echo "FAILED: ${file##*/} differs between two builds of the same source" >&2
        cmp "$file" "$other" >&2 || true
        if [ -n "${EA_KEEP:-}" ]; then
            mkdir -p "$EA_KEEP" && cp "$file" "$EA_KEEP/one-${file##*/}" && cp "$other" "$EA_KEEP/another-${file##*/}"
        fi
    fi
done
echo "$same passed, $differ failed"
[ "$differ" -eq 0 ]
