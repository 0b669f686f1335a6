#!/usr/bin/env bash
# make demo: certificates, a collector on loopback, a trace of a machine that never was, an agent that ships it, what the
# collector then knows of that machine, and at last a fleet of 20 such machines and a link to the dashboard.
# Builds the release preset first (or uses a build folder that is given). Everything lives in a temporary folder, and what
# was started is stopped: at Ctrl-C, or so many seconds after the link is printed as DEMO_SECONDS says.
# usage: [DEMO_SECONDS=N] tests/demo.sh [BUILD]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${1:-build/release}
if [ $# -eq 0 ]; then
    echo "building (preset release)"
    mkdir -p build
    if ! { cmake --preset release && cmake --build --preset release -j "${JOBS:-$(nproc)}" --target etwagent etwcollector tracegen; } \
        >build/demo-build.log 2>&1; then
        tail -n 30 build/demo-build.log
        exit 1
    fi
fi
PATH=$PWD/$build/service/app:$PWD/$build/collector/app:$PWD/$build/tests/tracegen:$PATH
case $build in /*) PATH=$build/service/app:$build/collector/app:$build/tests/tracegen:$PATH ;; esac

folder=$(mktemp -d)
collector=
fleet=
finish() {
    for process in $fleet $collector; do
        kill "$process" 2>/dev/null || true
        wait "$process" 2>/dev/null || true
    done
    rm -rf "$folder"
}
trap finish EXIT
trap 'exit 0' INT TERM
cd "$folder"

# Shows a command as one would type it, and runs it.
say() {
    printf '\n$ %s\n' "$*"
    "$@"
}
field() { python3 -c 'import json, sys; print(eval(sys.argv[1], {"d": json.load(sys.stdin)}))' "$1"; }

say etwcollector ca init --dir certs
say etwcollector ca issue --dir certs --server --name collector --san DNS:localhost --san IP:127.0.0.1
say etwcollector ca issue --dir certs --name desk-17

start=(etwcollector run --store store --listen 127.0.0.1:0 --port-file port --cert certs/collector.crt
       --key certs/collector.key --ca certs/ca.crt --crl certs/ca.crl --web 127.0.0.1:0)
printf '\n$ %s &\n' "${start[*]}"
"${start[@]}" >collector.log 2>&1 &
collector=$!
for _ in $(seq 300); do
    [ -s port ] && break
    kill -0 "$collector" 2>/dev/null || { cat collector.log; exit 1; }
    sleep 0.1
done
[ -s port ] || { echo "the collector was not ready within 30 s"; cat collector.log; exit 1; }

say tracegen make --preset office --seed 17 --out desk.etl --truth truth.jsonl --compress
say etwagent replay desk.etl --collector "https://localhost:$(cat port)" --cert certs/desk-17.crt --key certs/desk-17.key \
    --ca certs/ca.crt --spool spool

say etwcollector hosts --store store
moment=+10s
say etwcollector ps --store store --at $moment --tree

pid=$(etwcollector ps --store store --at $moment --json | field 'next(p["pid"] for p in d["processes"] if p["name"] == "explorer.exe")')
say etwcollector modules --store store --at $moment --pid "$pid"
base=$(etwcollector modules --store store --at $moment --pid "$pid" --json |
    field 'next(m["base"] for m in d["modules"] if m["path"].endswith("user32.dll"))')
address=$(python3 -c 'import sys; print(hex(int(sys.argv[1], 0) + 0x1f3c0))' "$base")
say etwcollector where --store store --at $moment --pid "$pid" "$address"

# what the generator knows, which never went through agent or collector
etwcollector ps --store store --at $moment --json >ps.json
python3 - <<'END'
import json
answer = json.load(open("ps.json"))
truth = [json.loads(line) for line in open("truth.jsonl", encoding="utf-8")]
start = next(row["start_raw"] for row in truth if row["type"] == "machine")
now = start + 10 * 10_000_000
alive = {(row["pid"], row["image"]) for row in truth if row["type"] == "process"
         and (row["begin_raw"] is None or row["begin_raw"] <= now) and (row["end_raw"] is None or row["end_raw"] > now)}
reported = {(p["pid"], p["name"]) for p in answer["processes"]}
if reported != alive:
    raise SystemExit(f"\nFAILED: the collector says {sorted(reported - alive)}, the truth is {sorted(alive - reported)}")
print(f"\nThe collector's {len(reported)} processes at that moment are those that the generator says were alive.")
END

# a fleet, until Ctrl-C
play() {
    start_fleet=(tracegen fleet 20 --collector "https://localhost:$(cat port)" --ca-dir certs --dir "fleet-$1" --preset office
                 --trace-seconds 5 --rate 500 --seconds 3600 --seed "$((20 * $1 + 1))")
    [ "$1" -gt 0 ] || printf '\n$ %s &\n' "${start_fleet[*]}"
    "${start_fleet[@]}" >>fleet.log 2>&1 &
    fleet=$!
}
play 0
link=$(sed -n 's/^dashboard on //p' collector.log)
python3 - "$link" "$fleet" <<'END'
import json, sys, time, urllib.request
deadline = time.monotonic() + 90
while True:
    with urllib.request.urlopen(sys.argv[1] + "api/v1/fleet") as answer:
        if json.load(answer)["hosts"] > 20:
            break
    if time.monotonic() > deadline:
        raise SystemExit("FAILED: the fleet was not there within 90 s")
    time.sleep(0.2)
END
printf '\n20 more machines are running. The dashboard:\n\n    %s\n\n' "$link"
if [ -n "${DEMO_SECONDS:-}" ]; then
    sleep "$DEMO_SECONDS" &
    wait $! # a signal ends a wait at once, a sleep not
else
    echo "Ctrl-C ends it all."
    for ((round = 1; ; round++)); do # traces end: other machines go on
        wait "$fleet" || true
        kill -0 "$collector" 2>/dev/null || { cat collector.log; exit 1; }
        play "$round"
    done
fi
