#!/usr/bin/env bash
# Builds the collector's Debian package out of a build folder (preset release), without debhelper.
# usage: installer/debian/build-deb.sh BUILD VERSION OUTPUT.deb
set -euo pipefail

if [ $# -ne 3 ]; then
    sed -n '2,3s/^# //p' "${BASH_SOURCE[0]}" >&2
    exit 2
fi
build=$1 version=$2 output=$3
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
[[ $version =~ ^[0-9][0-9A-Za-z.+~-]*$ ]] || { echo "build-deb.sh: '$version' is no version" >&2; exit 2; }
program=$build/collector/app/etwcollector
[ -x "$program" ] || { echo "build-deb.sh: $program is missing; build it first" >&2; exit 1; }

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 0755 "$root"
umask 022
mkdir -p "$root/DEBIAN" "$root/usr/bin" "$root/etc/etwcollector" "$root/lib/systemd/system" "$root/usr/lib/etwcollector" "$root/usr/share/doc/etwcollector" \
    "$root/usr/share/man/man1" "$root/usr/share/bash-completion/completions"
install -m 0755 "$program" "$root/usr/bin/etwcollector"
strip --strip-unneeded "$root/usr/bin/etwcollector"
install -m 0644 "$here/collector.yaml" "$root/etc/etwcollector/collector.yaml"
for unit in etwcollector.service etwcollector-backup.service etwcollector-backup.timer; do
    install -m 0644 "$here/$unit" "$root/lib/systemd/system/$unit"
done
install -m 0755 "$here/give-key" "$here/backup" "$root/usr/lib/etwcollector/"
python3 "$here/../release/sbom.py" collector --program "$root/usr/bin/etwcollector" --libraries "$build/collector/web/ui/node_modules" --version "$version" \
    --output "$root/usr/share/doc/etwcollector/etwcollector.cdx.json" --licenses "$root/usr/share/doc/etwcollector/copyright"
"$program" --man | gzip -9n >"$root/usr/share/man/man1/etwcollector.1.gz"
"$program" --complete bash >"$root/usr/share/bash-completion/completions/etwcollector"

# what the program links, by the packages that hold it
work=$root/.shlibs
mkdir -p "$work/debian"
printf 'Source: etwcollector\n\nPackage: etwcollector\nArchitecture: any\n' >"$work/debian/control"
depends=$(cd "$work" && dpkg-shlibdeps -O "$root/usr/bin/etwcollector" 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
rm -rf "$work"
[ -n "$depends" ] || { echo "build-deb.sh: dpkg-shlibdeps said nothing" >&2; exit 1; }
# ... and what it loads when it is needed: for symbol servers and receivers, and for Kafka (sbom.py has the same list)
for library in libcurl.so.4 librdkafka.so.1; do
    package=$(dpkg-query -S "*/$library" | sed -n '1s/:.*//p')
    [ -n "$package" ] || { echo "build-deb.sh: no package has $library" >&2; exit 1; }
    depends="$depends, $package"
done

cat >"$root/DEBIAN/control" <<CONTROL
Package: etwcollector
Version: $version
Architecture: $(dpkg --print-architecture)
Maintainer: etwagent project <noreply@example.com>
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)
Depends: $depends
Section: admin
Priority: optional
Description: collector of Event Tracing for Windows
 Receives batches of events from etwagent over TLS, keeps them, rebuilds each
 machine's processes, threads and modules over time, and answers questions.
CONTROL
echo /etc/etwcollector/collector.yaml >"$root/DEBIAN/conffiles"
# The service is not started by the installation: it has no certificates yet.
cat >"$root/DEBIAN/postinst" <<'SCRIPT'
#!/bin/sh
set -e
if [ "$1" = configure ] && [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
    if [ -n "$2" ]; then
        systemctl try-restart etwcollector.service || true
    fi
fi
SCRIPT
cat >"$root/DEBIAN/prerm" <<'SCRIPT'
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    systemctl disable --now etwcollector-backup.timer etwcollector.service || true
fi
SCRIPT
cat >"$root/DEBIAN/postrm" <<'SCRIPT'
#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
fi
if [ "$1" = purge ]; then
    # backups, which are in /var/lib/etwcollector-backup, and the CA stay
    rm -rf /var/lib/private/etwcollector /var/lib/etwcollector
fi
SCRIPT
chmod 0755 "$root/DEBIAN/postinst" "$root/DEBIAN/prerm" "$root/DEBIAN/postrm"
# the same bytes for the same source: one thread compresses, and no file is younger than the source
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$here" log -1 --format=%ct)}
dpkg-deb --root-owner-group -Zxz --threads-max=1 --build "$root" "$output" >/dev/null
echo "$output"
