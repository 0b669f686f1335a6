"""Decoders as plug-ins: `--plugins` with the example of tests/plugins, and with every way in which a plug-in can misbehave.

- The example's classes are known, with fields, names and messages, and come first in the log of nobody.
- Wrong version, a class that is taken (by our tables, by another plug-in), a crash when it is loaded or asked, a hang, printing, refusing,
  wrong fields, no library at all: one line each, nothing of it is used, and the program goes on with the others.

# sanitizers: asan-ubsan
"""
import json
import re
import shutil

import harness
import traces

SAYS = {1: "plug-in version 2, this program takes version 1", 2: "belongs to this program's own tables", 3: "belongs to another plug-in",
        4: r"it crashed \(signal or exception \d+\)", 5: "it did not answer within 10000 ms", 6: "plug-ins must not print",
        7: "it does not want to run", 8: "class 'Other/Three': a field takes its count or length from one", 9: "it decodes no class",
        10: r"it crashed \(signal or exception \d+\)", 11: "class 'Other/Four': provider is no GUID"}


def folder(env, name, modules):
    path = env.folder / name
    path.mkdir()
    for module, target in modules.items():
        shutil.copy(env.build / "tests" / "plugins" / f"{module}.so", path / target)
    return path


def example(env, checks):
    plugins = folder(env, "good", {"plugin_example": "example.so"})
    (plugins / "README").write_text("no plug-in")
    done = env.run([env.agent, "schema", "show", "example-plugin-provider", "--json", "--plugins", plugins])
    checks.equal(done.stderr, "", "what is said of a good plug-in")
    provider, = json.loads(done.stdout)
    names = [(e["name"], e["id"], e["version"]) for e in provider["events"]]
    checks.equal(names, [("Painter/Start", 1, 0), ("Painter/Start", 1, 1), ("Painter/Draw", 2, 0)], "classes of the example")
    start = provider["events"][0]
    checks.equal([(f["name"], f["type"], f["semantic"], f.get("values")) for f in start["fields"]],
                 [("ProcessId", "U32", "PID", None), ("Colour", "U8", "", {"0x1": "red", "0x2": "green"}), ("Name", "UTF16Z", "", None)], "fields")
    checks.equal(start["message"], "%3 of process %1 paints in %2", "message")
    draw = provider["events"][2]["fields"]
    checks.equal([(f["name"], f["type"], f["count"]) for f in draw], [("Count", "U16", 1), ("Points", "STRUCT", "Count"), ("X", "I32", 1), ("Y", "I32", 1)],
                 "a struct as often as another field says")
    checks.that("can be used" in env.run([env.agent, "plugin", "probe", plugins / "example.so"]).stdout, "plugin probe of the example")


def misbehaving(env, checks):
    modules = {"plugin_example": "a-example.so", **{f"plugin_misbehaving_{n}": f"b{n:02}.so" for n in SAYS}}
    plugins = folder(env, "bad", modules)
    (plugins / "c-text.so").write_text("this is no library")
    name = "tracelogging-struct"
    plain = env.run([env.agent, "dump", *traces.paths(name, env.build)])
    done = env.run([env.agent, "dump", "--plugins", plugins, *traces.paths(name, env.build)])
    lines = done.stderr.splitlines()
    checks.that(done.stdout == plain.stdout and done.stdout, "the program goes on")
    for number, says in SAYS.items():
        said = [line for line in lines if f"b{number:02}.so is left out: " in line]
        checks.that(len(said) == 1 and re.search(says, said[0]), f"plug-in {number}: {said}; expected {says}")
    checks.that(any("c-text.so is left out: it is no library that can be loaded" in line for line in lines), f"a text: {lines}")
    checks.equal(len(lines), len(SAYS) + 1, "lines in all")
    listed = json.loads(env.run([env.agent, "schema", "show", "Example-Plugin-Provider", "--json", "--plugins", folder(env, "two", {
        "plugin_example": "a.so", "plugin_misbehaving_3": "b.so"})]).stdout)
    checks.equal([len(p["events"]) for p in listed], [3], "the other plug-in took nothing")
    done = env.run([env.agent, "dump", "--plugins", env.folder / "nowhere", *traces.paths(name, env.build)], check=False)
    checks.that(done.returncode == 1 and "nowhere" in done.stderr, f"a folder that is not there: {done.returncode} {done.stderr}")


def test(env, checks, arguments):
    example(env, checks)
    misbehaving(env, checks)


if __name__ == "__main__":
    harness.main(test, __doc__)
