#!/usr/bin/env python3
"""Writes a program's bill of materials (CycloneDX 1.5, JSON) and, with --licenses, the licence texts of what it contains.

usage: sbom.py agent --program etwagent.exe --libraries DIR --version V --output FILE [--licenses FILE]
       sbom.py collector --program etwcollector --libraries DIR --version V --output FILE [--licenses FILE]
--libraries: of the agent the folder that installer/deps/build-windows-deps.sh wrote; of the collector the dashboard's node_modules.

components.tsv beside this script names what the programs contain. A library that is linked and not named there is an error: the bill
must not be shorter than the program. The collector's shared libraries are listed as Debian's packages; the collector does not contain
them. Nothing in the output depends on the machine's clock: the time is SOURCE_DATE_EPOCH's, or that of the last commit.
"""
import argparse
import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import uuid

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
NAMESPACE = uuid.UUID("c1f0a1de-7c3f-4f0e-8f0c-3f6f1a9d2b10")
LOADED_LATER = ("libcurl.so.4", "librdkafka.so.1")  # by the collector, when they are needed
TESTS_ONLY = {"cmocka"}  # built beside the libraries, and linked by no program


def output_of(*command):
    return subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE, text=True).stdout


def epoch():
    said = os.environ.get("SOURCE_DATE_EPOCH")
    return int(said if said else output_of("git", "-C", SOURCE, "log", "-1", "--format=%ct"))


def known_components():
    rows = [line.split("\t") for line in (HERE / "components.tsv").read_text().splitlines() if line and not line.startswith("#")]
    return {name: {"source": source, "licence": licence, "home": home} for name, source, licence, home in rows}


def component(name, version, purl, licence=None, home=None, linkage="contained"):
    made = {"type": "library", "bom-ref": purl, "name": name, "version": version, "scope": "required", "purl": purl,
            "properties": [{"name": "etwagent:linkage", "value": linkage}]}
    if licence:
        simple = re.fullmatch(r"[A-Za-z0-9.-]+", licence)
        made["licenses"] = [{"license": {"id": licence}} if simple else {"expression": licence}]
    if home:
        made["externalReferences"] = [{"type": "website", "url": home}]
    return made


def escaped(text):
    return text.replace("+", "%2B").replace(":", "%3A").replace("@", "%40")


def agent(libraries):
    """(component, file with its licence's text) of what etwagent.exe contains."""
    known, found = known_components(), []
    for line in (libraries / "versions.txt").read_text().splitlines():
        name, version = line.split()
        if name in TESTS_ONLY:
            continue
        if known.get(name, {}).get("source") != "debian-source":
            sys.exit(f"sbom.py: {libraries}/versions.txt names {name}; add it to {HERE}/components.tsv with its licence")
        row = known[name]
        found.append((component(name, version, f"pkg:deb/debian/{name}@{escaped(version)}?arch=source", row["licence"], row["home"]),
                      libraries / "licenses" / name))
    for name, row in known.items():
        if row["source"] == "debian":
            version = output_of("dpkg-query", "-W", "-f", "${Version}", name)
            found.append((component(name, version, f"pkg:deb/debian/{name}@{escaped(version)}", row["licence"], row["home"]),
                          pathlib.Path("/usr/share/doc") / name / "copyright"))
    return found


def collector(packages, program):
    """The same of etwcollector, and the packages of the libraries that it loads."""
    known, found = known_components(), []
    lock = json.loads((SOURCE / "collector" / "web" / "ui" / "package-lock.json").read_text())["packages"]
    for path, package in lock.items():
        name = path.removeprefix("node_modules/")
        if not path or package.get("dev"):
            continue
        if known.get(name, {}).get("source") != "npm":
            sys.exit(f"sbom.py: package-lock.json names {name}; add it to {HERE}/components.tsv with its licence")
        row = known[name]
        found.append((component(name, package["version"], f"pkg:npm/{escaped(name)}@{package['version']}", row["licence"], row["home"]),
                      packages / name / "LICENSE"))
    loaded = set()
    for path in re.findall(r"=> (/\S+)", output_of("ldd", program)):
        for spelling in {path, os.path.realpath(path), path.removeprefix("/usr"), os.path.realpath(path).removeprefix("/usr")}:
            owner = subprocess.run(["dpkg-query", "-S", spelling], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
            if owner:
                loaded.add(owner.split(":")[0])
                break
        else:
            sys.exit(f"sbom.py: no Debian package owns {path}, which {program} loads")
    for library in LOADED_LATER:
        owner = subprocess.run(["dpkg-query", "-S", f"*/{library}"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        if not owner:
            sys.exit(f"sbom.py: no Debian package has {library}, which {program} loads when it needs it")
        loaded.add(owner.split(":")[0])
    for name in sorted(loaded):
        version = output_of("dpkg-query", "-W", "-f", "${Version}", name)
        found.append((component(name, version, f"pkg:deb/debian/{name}@{escaped(version)}", linkage="loaded"), None))
    return found


def bill(name, version, program, components):
    digest = hashlib.sha256(program.read_bytes()).hexdigest()
    ref = f"pkg:generic/{name}@{version}"
    made = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
            "metadata": {"timestamp": datetime.datetime.fromtimestamp(epoch(), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                         "component": {"type": "application", "bom-ref": ref, "name": name, "version": version, "purl": ref,
                                       "licenses": [{"license": {"id": "Apache-2.0"}}],
                                       "hashes": [{"alg": "SHA-256", "content": digest}]}},
            "components": components,
            "dependencies": [{"ref": ref, "dependsOn": [c["bom-ref"] for c in components]}]}
    content = json.dumps(made, sort_keys=True)
    return {"$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json", **made, "serialNumber": f"urn:uuid:{uuid.uuid5(NAMESPACE, content)}"}


def licence_texts(found):
    parts = [f"This program: Apache-2.0\n\n{(SOURCE / 'LICENSE').read_text()}"]
    for made, path in found:
        if path is None:
            continue
        if not path.is_file():
            sys.exit(f"sbom.py: the licence text of {made['name']} is missing: expected {path}")
        text = path.read_text(encoding="utf-8", errors="replace")
        parts.append(f"It contains {made['name']} {made['version']}\n\n{text}")
    return ("\n" + "=" * 100 + "\n\n").join(parts)


def write(kind, program, libraries, version, output, licences=None):
    """Writes the bill of a program to output, and the licence texts of what it contains to licences. kind: agent or collector."""
    found = agent(libraries) if kind == "agent" else collector(libraries, program)
    made = bill("etwagent" if kind == "agent" else "etwcollector", version, program, [c for c, _ in found])
    output.write_text(json.dumps(made, indent=1) + "\n")
    if licences:
        licences.write_text(licence_texts(found))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=("agent", "collector"))
    parser.add_argument("--program", type=pathlib.Path, required=True)
    parser.add_argument("--libraries", type=pathlib.Path, required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--licenses", type=pathlib.Path, help="the licence texts go there")
    arguments = parser.parse_args()
    write(arguments.kind, arguments.program, arguments.libraries, arguments.version, arguments.output, arguments.licenses)


if __name__ == "__main__":
    main()
