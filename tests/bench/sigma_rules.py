#!/usr/bin/env python3
"""Generates Sigma rules for process_creation, and process starts, for the benchmark of the rules (rules.c).

The rules have the shape of the public collection: a program by the end of its path or its original name, words of its command line of which one or
all occur, parents, expressions in few, filters in a third. Names are made up, or of programs of Windows; programs and words are drawn with a skew, so that a
few programs are in many rules. The starts are those of an office: most programs start again and again, most command lines are new.

usage: tests/bench/sigma_rules.py DIR [--rules N] [--events N] [--seed N]
Writes DIR/rules-*.yml and DIR/events.txt: a line FIELD<tab>VALUE each, an empty line after each event.
"""
import argparse
import json
import pathlib
import random

PROGRAMS = ("powershell cmd rundll32 regsvr32 wscript cscript mshta certutil schtasks reg net net1 wmic bitsadmin msbuild installutil sc pwsh curl ftp netsh explorer "
            "svchost conhost taskhostw winword excel outlook chrome msedge firefox notepad mmc services lsass csrss wininit spoolsv dllhost backgroundtaskhost "
            "searchindexer runtimebroker python git node java msiexec whoami nltest tasklist vssadmin wbadmin bcdedit esentutl forfiles odbcconf").split()
OFFICE = ("svchost conhost taskhostw dllhost backgroundtaskhost runtimebroker searchindexer chrome chrome chrome msedge cmd cmd powershell explorer outlook excel git git node "
          "python conhost svchost rundll32 reg net msiexec wmic notepad").split()
SWITCHES = (" -e", " -enc", " /c ", " /create ", " add ", " -nop", " -w hidden", "http://", "https://", "\\Temp\\", "\\AppData\\", "\\Users\\Public\\", ".dll", ".ps1", ".vbs",
            "IEX", "Invoke-", "DownloadString", "FromBase64String", " /f ", " -ExecutionPolicy ", " delete ", "HKLM", "\\Software\\Microsoft\\", "Run", "admin", "lsass", " -ma ")
FOLDERS = ("C:\\Windows\\System32\\", "C:\\Windows\\SysWOW64\\", "C:\\Program Files\\Vendor\\", "C:\\Users\\user\\AppData\\Local\\Temp\\", "C:\\ProgramData\\Tool\\")
SYLLABLES = "ba ce di fo gu ka le mi no pu ra se ti vo xa ze".split()
EXPRESSIONS = (r"\s-[eE]n?c?\s+[A-Za-z0-9+/=]{20,}", r"\^.\^.\^", r"[a-z0-9]{30,}\.exe", r"\\\\[0-9]{1,3}(\.[0-9]{1,3}){3}\\", r"%[A-Z]+:~\d+,\d+%", r"(?i)frombase64.*iex")


class Words:
    """Names and words, drawn with a skew: the first of a list most often."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.rare = [self.made(3) for _ in range(900)]
        self.tools = PROGRAMS + [self.made(3) for _ in range(350)]

    def made(self, count):
        return "".join(self.rng.choice(SYLLABLES) for _ in range(count))

    def skewed(self, items):
        return items[min(int(self.rng.paretovariate(0.7)) - 1, self.rng.randrange(len(items)))]

    def program(self):
        return self.skewed(self.tools) + ".exe"

    def word(self, common):
        """common: how often it is one that harmless command lines have, too."""
        if self.rng.random() < common:
            return self.rng.choice(SWITCHES)
        return self.rng.choice((" -", " /", "\\", "", " ", "--")) + self.rng.choice(self.rare) + self.rng.choice(("", " ", ".exe", ".dll", "\\"))

    def words(self, most, common=0.0):
        return [self.word(common) for _ in range(self.rng.randint(1, most))]


def rule(words, number):
    rng, searches, terms = words.rng, {}, []
    kind = rng.random()
    if kind < 0.75:
        programs = [words.program() for _ in range(rng.choice((1, 1, 1, 2, 2, 5)))]
        image = {"Image|endswith": ["\\" + p for p in programs]}
        searches["selection_img"] = [image, {"OriginalFileName": programs}] if rng.random() < 0.6 else image
        terms.append("selection_img")
    if kind > 0.6 or rng.random() < 0.8:
        for i in range(rng.choice((1, 1, 1, 2, 3))):
            modifiers = rng.choice(("|contains", "|contains", "|contains|all", "|contains|windash", "|endswith", "|startswith"))
            is_all = "all" in modifiers
            value = words.words(3, 0.5) + words.words(1) if is_all else words.words(rng.choice((3, 8, 25)), 0.3 if i else 0)
            searches[f"selection_cli_{i}"] = {"CommandLine" + modifiers: [v for v in value if len(v) > 2] or [" -nop " + words.made(3)]}
            terms.append(f"selection_cli_{i}")
    if rng.random() < 0.2 or len(terms) < 2:
        searches["selection_parent"] = {"ParentImage|endswith": ["\\" + words.program() for _ in range(rng.randint(1, 6))]}
        terms.append("selection_parent")
    if rng.random() < 0.05:
        for name in [name for name in terms if name.startswith("selection_cli")][:2]:
            terms.remove(name)
        searches["selection_re"] = {"CommandLine|re": rng.choice(EXPRESSIONS)}
        terms.append("selection_re")
    if rng.random() < 0.04:
        searches["selection_user"] = {"User|contains": ["AUTHORI", "AUTORI"], "IntegrityLevel": ["High", "System"]}
        terms.append("selection_user")
    condition = " and ".join(terms)
    if rng.random() < 0.35:
        for i in range(rng.randint(1, 3)):
            searches[f"filter_main_{i}"] = rng.choice(({"ParentImage|startswith": rng.choice(FOLDERS)}, {"CommandLine|contains": words.words(2)}, {"CommandLine": None},
                                                       {"Image|startswith": list(FOLDERS[:2]), "Company": "Vendor " + words.rng.choice(words.rare)}))
        condition += " and not 1 of filter_main_*"
    return {"title": f"generated {number}", "id": f"generated-{number}", "level": rng.choice(("low", "medium", "high")), "tags": ["attack.t1059"],
            "logsource": {"product": "windows", "category": "process_creation"}, "detection": {**searches, "condition": condition}}


def image_facts(words, program):
    name = program[:-4]
    md5, sha = (f"{words.rng.getrandbits(bits):0{bits // 4}X}" for bits in (128, 256))
    return {"OriginalFileName": program, "Company": "Microsoft Corporation" if name in PROGRAMS else "Vendor " + name, "Product": "Product of " + name,
            "Description": "Host of " + name, "FileVersion": f"10.0.{words.rng.randrange(20000)}.1", "Hashes": f"MD5={md5},SHA256={sha}"}


def events(words, count):
    rng, known, parents = words.rng, [], {}
    for name in OFFICE + [words.made(4) for _ in range(100)]:
        program = name + ".exe"
        known.append((rng.choice(FOLDERS[:2]) + program, image_facts(words, program)))
    for number in range(count):
        path, facts = known[min(int(rng.paretovariate(0.5)) - 1, rng.randrange(len(known)))]
        parent = words.skewed(known)[0]
        if rng.random() < 0.35:
            command = f'"{path}" ' + rng.choice(("", "-Embedding", "/s", "-k netsvcs -p -s Schedule"))
        else:
            command = f'"{path}" ' + " ".join(rng.choice((f"--{words.made(2)}={rng.getrandbits(40)}", f"C:\\Users\\user\\Documents\\{words.made(3)}.txt", f"/{words.made(1)}",
                                                         words.made(4), f"{rng.getrandbits(64):x}", *words.words(1, 0.7))) for _ in range(rng.randint(2, 14)))
        parents[parent] = parents.get(parent) or f'"{parent}" -k {words.made(3)}'
        yield {"Image": path, "CommandLine": command, "ProcessId": str(4 * (number % 9000) + 400), "ParentProcessId": str(4 * rng.randrange(2000) + 400), "ParentImage": parent,
               "ParentCommandLine": parents[parent], "User": rng.choice(("NT AUTHORITY\\SYSTEM", "OFFICE\\user", "OFFICE\\user", "NT AUTHORITY\\LOCAL SERVICE")),
               "IntegrityLevel": rng.choice(("Medium", "System", "High")), **facts}


def read_events(folder):
    event = {}
    with open(folder / "events.txt", encoding="utf-8") as lines:
        for line in lines:
            if line == "\n":
                yield event
                event = {}
            else:
                field, _, value = line.rstrip("\n").partition("\t")
                event[field] = value


def write_trace(folder):
    """Writes DIR/starts.etl, the kernel's records of the events: each process has five modules, and facts of its program's file. Returns how many
    processes start."""
    import kernel_records as kernel
    import test_rules_test as one
    import test_single_records as single
    records, parents, pid, clock = [], {}, 1000, 1000

    def start(path, parent, command, facts):
        nonlocal pid, clock
        pid, clock = pid + 4, clock + 100
        modules = [path[3:], *(f"Windows\\System32\\{name}.dll" for name in ("ntdll", "kernel32", "user32", "rpcrt4"))]
        records.append(one.process(pid, parent, path.split("\\")[-1], command, clock))
        records.extend(kernel.image(pid, one.BASE + 0x10000 * i, 0x1000, module, clock + 1) for i, module in enumerate(modules))
        records.append(one.facts(pid, one.BASE, path[3:], clock + 1, *facts))
        return pid

    for event in read_events(folder):
        parent = event["ParentImage"]
        if parent not in parents:
            parents[parent] = start(parent, 4, event["ParentCommandLine"], ("", ""))
        start(event["Image"], parents[parent], event["CommandLine"], (event["OriginalFileName"], event["Company"]))
    (folder / "starts.etl").write_bytes(single.trace(records))
    return (pid - 1000) // 4


def write_loads(folder, rule_count=100):
    """Rules of image_load: names of modules that no start has, for some of them of a program."""
    rules = []
    for i in range(rule_count):
        selection = {"ImageLoaded|endswith": [f"\\implant{i}.dll", f"\\hook{i}.dll"], **({"Image|endswith": "\\powershell.exe"} if i % 3 == 0 else {})}
        rules.append({"title": f"load {i}", "id": f"load-{i}", "level": "high", "logsource": {"product": "windows", "category": "image_load"},
                      "detection": {"selection": selection, "filter": {"Image|startswith": "C:\\Windows\\System32\\"}, "condition": "selection and not filter"}})
    (folder / "loads.yml").write_text("\n---\n".join(map(json.dumps, rules)), encoding="utf-8")


def write(folder, rule_count=1200, event_count=20000, seed=1):
    words = Words(seed)
    documents = [json.dumps(rule(words, i)) for i in range(rule_count)]  # JSON is YAML
    for begin in range(0, rule_count, 200):
        (folder / f"rules-{begin // 200:02}.yml").write_text("\n---\n".join(documents[begin:begin + 200]), encoding="utf-8")
    with open(folder / "events.txt", "w", encoding="utf-8") as out:
        for event in events(words, event_count):
            out.write("".join(f"{field}\t{value}\n" for field, value in event.items()) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--rules", type=int, default=1200)
    parser.add_argument("--events", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    write(options.folder, options.rules, options.events, options.seed)


if __name__ == "__main__":
    main()
