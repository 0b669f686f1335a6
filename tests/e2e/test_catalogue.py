"""The catalogue (config/schemas): what ships with the program about providers.

- Every manifest in it is free of mistakes and says where it is from; the providers that it is for are all there.
- Against the providers' own manifests (HTTP_Server.man, SystemEvents.man): each event of the same number and version has the same fields, of
  the same types, in the same order, but for the differences that are listed here with their reason.
- Against real traces without a manifest: the events that the catalogue describes are decoded as with the manifest.

# sanitizers: asan-ubsan
"""
import json

import harness
import traces

PROVIDERS = {f"Microsoft-Windows-{name}" for name in (
    "Kernel-Process", "Kernel-File", "Kernel-Network", "Kernel-Registry", "Kernel-Memory", "Kernel-EventTracing", "DNS-Client", "DNSServer",
    "WinINet", "WebIO", "SMBClient", "SMBServer", "LDAP-Client", "WMI-Activity", "PowerShell", "Threat-Intelligence", "Security-Auditing",
    "TaskScheduler", "RPC", "DxgKrnl", "Win32k", "IIS-Logging", "HttpService")} | {"Microsoft-Antimalware-Scan-Interface", "System.Diagnostics.Metrics"}
# (provider, id, version) whose fields differ from those of a manifest at hand, and why
DIFFERENT = {
}


def show(env, name, *options):
    done = env.run([env.agent, "schema", "show", name, "--json", *options], check=False)
    return json.loads(done.stdout) if done.returncode == 0 else []


def layout(event):
    return [(f["name"], f["type"], f["count"], f.get("members")) for f in event["fields"]]


def files(env, checks):
    folder = harness.ROOT / "config" / "schemas"
    manifests = sorted(folder.glob("*.man"))
    done = env.run([env.agent, "schema", "check", *manifests])
    checks.that(done.stdout.count(", 0 mistakes") == len(manifests), done.stdout)
    for path in manifests:
        head = path.read_text().split("-->")[0]
        checks.that(head.startswith("<!--") and "Written from public facts" in head, f"{path.name} says where it is from")
    listed = {p["name"]: p for p in json.loads(env.run([env.agent, "schema", "list", "--json"]).stdout) if p["layer"] == "catalogue"}
    checks.equal(set(listed), PROVIDERS, "providers of the catalogue")
    checks.that(all(p["event_count"] for p in listed.values()), "every provider has events")
    print(f"{len(listed)} providers, {sum(p['event_count'] for p in listed.values())} events and versions of events")


def against_manifest(env, checks, manifest):
    compared = 0
    for name in sorted(PROVIDERS):
        sources = {p["layer"]: {(e["id"], e["version"]): e for e in p["events"]} for p in show(env, name, "--manifest", manifest)}
        if "file" not in sources:
            continue
        for key in sorted(set(sources["file"]) & set(sources["catalogue"])):
            compared += 1
            ours, theirs = layout(sources["catalogue"][key]), layout(sources["file"][key])
            if ours != theirs:
                checks.that((name, *key) in DIFFERENT, f"{(name, *key)}: {ours}; {manifest.name} has {theirs}")
    print(f"{manifest.name}: {compared} events compared")
    return compared


def against_trace(env, checks, name, manifest):
    """Events without a manifest: those of a known class have the fields that the manifest gives them."""
    lines = [env.run([env.agent, "dump", "--format", "jsonl", "--no-names", *extra, *traces.paths(name, env.build)]).stdout.splitlines()
             for extra in ([], ["--manifest", manifest])]
    same = differ = unknown = 0
    for ours, theirs in zip(*(map(json.loads, found) for found in lines)):
        a, b = ours.get("fields", {}), theirs.get("fields", {})
        if not a or set(a) == {"_tail"}:
            unknown += 1
        elif a == b or (a.keys() == b.keys() and all(plain(a[k]) == plain(b[k]) for k in a)):
            same += 1
        else:
            differ += 1
            if differ <= 3:
                print(f"{name}: {ours}\n{theirs}")
    checks.equal(differ, 0, f"{name}: events that the catalogue decodes otherwise than the manifest")
    print(f"{name}: {same} events as with the manifest, {unknown} that the catalogue does not know")
    return same


def plain(value):
    return value["value"] if isinstance(value, dict) and "value" in value else value


def test(env, checks, arguments):
    files(env, checks)
    manifests = "http-server-win7/HTTP_Server.man", "kernel-process-provider/SystemEvents.man"
    if not checks.real("catalogue: events as the providers' own manifests decode them", *manifests):
        return
    http, system = (traces.document(manifest, env.build) for manifest in manifests)
    checks.that(against_manifest(env, checks, http) > 40, "too few events of HTTP_Server.man were compared")
    checks.that(against_manifest(env, checks, system) > 40, "too few events of SystemEvents.man were compared")
    checks.that(against_trace(env, checks, "http-server-win7", http) > 1000, "too few events of http-server-win7")
    checks.that(against_trace(env, checks, "kernel-process-provider", system) > 10000, "too few events of kernel-process-provider")
    checks.that(against_trace(env, checks, "kernel-network-provider", system) > 8000, "too few events of kernel-network-provider")


if __name__ == "__main__":
    harness.main(test, __doc__)
