#!/usr/bin/env bash
# Builds what a release consists of, from the tree that it is in: the collector's Debian package, etwagent.exe and its MSI, a bill of
# materials of each program, and their SHA-256. The bytes depend on the source, the compilers and the libraries alone: reproducible.sh.
# usage: installer/release/build.sh VERSION OUTPUT [--sign COMMAND] [--key MINISIGN_KEY]
# --sign: runs COMMAND with a file's path after it, for each Windows file (Authenticode; see installer/windows/README.md).
# --key: signs the list of sums with minisign, which asks for the key's password.
set -euo pipefail

usage() {
    sed -n '2,7s/^# //p' "${BASH_SOURCE[0]}" >&2
    exit 2
}
[ $# -ge 2 ] || usage
version=$1 output=$2
shift 2
sign=() key=
while [ $# -gt 0 ]; do
    case $1 in
    --sign) sign=(--sign "$2"); shift 2 ;;
    --key) key=$2; shift 2 ;;
    *) usage ;;
    esac
done
[[ $version =~ ^[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,5}$ ]] || { echo "build.sh: '$version' is no version; expected three numbers, 1.2.3" >&2; exit 2; }
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
source=$(readlink -f "$here/../..")
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$source" log -1 --format=%ct)}
export LC_ALL=C TZ=UTC
libraries=${EA_DEPS_CACHE:-$HOME/.cache/etwagent/windows-x64}
mkdir -p "$output"
output=$(readlink -f "$output")

cd "$source"
"$source/installer/deps/packages.sh" build windows
"$source/installer/deps/build-windows-deps.sh"
for preset in release windows; do
    cmake --preset "$preset" -DEA_BUILD_TESTS=OFF
    cmake --build --preset "$preset" -j "$(nproc)"
done
collector=build/release/collector/app/etwcollector
agent=build/windows/service/app/etwagent.exe
installer/debian/build-deb.sh build/release "$version" "$output/etwcollector_${version}_$(dpkg --print-architecture).deb"
python3 installer/windows/build_msi.py --exe "$agent" --version "$version" --output "$output/etwagent-$version.msi" --libraries "$libraries" "${sign[@]}"
python3 installer/release/sbom.py collector --program "$collector" --libraries build/release/collector/web/ui/node_modules \
    --version "$version" --output "$output/etwcollector-$version.cdx.json"
python3 installer/release/sbom.py agent --program "$agent" --libraries "$libraries" --version "$version" --output "$output/etwagent-$version.cdx.json"

cd "$output"
sha256sum -- *"$version"* | LC_ALL=C sort -k2 >SHA256SUMS
if [ -n "$key" ]; then
    minisign -Sm SHA256SUMS -s "$key" -t "etwagent $version"
fi
cat SHA256SUMS
