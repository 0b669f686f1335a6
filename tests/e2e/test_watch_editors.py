"""Where people write programs of the query language: `etwagent watch --complete-probe`, the bash completion of config/editors, and the TextMate
grammar there, which has each word that the completion knows (`--write` writes it).
"""
import json
import re
import subprocess

import harness
import test_tracegen

FOLDER = harness.ROOT / "config" / "editors"
GRAMMAR = FOLDER / "etwagent-watch.tmLanguage.json"


def completions(env, text, *paths):
    return env.run([env.agent, "watch", "--complete-probe", text, *paths]).stdout.split("\n")[:-1]


def words(env, trace):
    """The words of the language by kind."""
    in_expression, functions = completions(env, "begin { x = "), completions(env, "begin { @ = ")
    in_statement = completions(env, "begin { ")
    keywords = [w for w in in_statement if w in ("if", "else")]
    bases = [w for w in in_expression if w in in_statement and w != "delta"]
    statements = [w for w in in_statement if w not in keywords + bases]
    calls = [w for w in in_expression if w not in bases and is_call(env, trace, w)]
    values = [w for w in in_expression if w not in bases + calls]
    probes = [w.rstrip(":") for w in completions(env, "") if re.fullmatch("[a-z-]+|tick:", w)]
    return {"keyword": keywords, "probe": probes, "base": bases, "value": values, "call": calls, "statement": statements, "function": functions}


def is_call(env, trace, word):
    """Whether the compiler does not take the word for a value."""
    return f"unknown name {word}" in env.run([env.agent, "watch", "-e", f"begin {{ x = {word}; exit(); }}", trace], check=False).stderr


def grammar(kinds):
    def of(kind):
        return "|".join(sorted(kinds[kind], key=lambda w: (-len(w), w)))
    return {
        "$schema": "https://raw.githubusercontent.com/martinring/tmlanguage/master/tmlanguage.json",
        "name": "etwagent watch", "scopeName": "source.etwagent-watch", "fileTypes": ["watch"],
        "patterns": [
            {"name": "comment.line.number-sign", "match": "#.*$"},
            {"name": "comment.line.double-slash", "match": "(?:^|(?<=\\s))//.*$"},
            {"name": "comment.block", "begin": "/\\*", "end": "\\*/"},
            {"name": "string.quoted.double", "begin": "\"", "end": "\"",
             "patterns": [{"name": "constant.character.escape", "match": "\\\\[ntr\\\\\"]"}]},
            {"name": "entity.name.function.probe", "match": "\\b[A-Za-z]+:::[A-Za-z0-9-]+"},
            {"name": "entity.name.function.probe", "match": f"(?<![\\w@.-])(?:{of('probe')})(?![\\w(-])(?=\\s*[,:/{{])"},
            {"name": "variable.other.aggregation", "match": "@[A-Za-z_0-9]*"},
            {"name": "variable.parameter", "match": "\\$[0-9]+"},
            {"name": "constant.numeric", "match": "\\b(?:0[xX][0-9A-Fa-f]+|[0-9]+(?:\\.[0-9]+)?)(?:ns|us|ms|s|m|h|d|KiB|MiB|GiB)?\\b"},
            {"name": "keyword.control", "match": f"\\b(?:{of('keyword')})\\b"},
            {"name": "support.function.statement", "match": f"\\b(?:{of('statement')})(?=\\s*\\()"},
            {"name": "support.function.aggregating", "match": f"\\b(?:{of('function')})(?=\\s*\\()"},
            {"name": "support.function", "match": f"\\b(?:{of('call')})(?=\\s*\\()"},
            {"name": "variable.language", "match": f"\\b(?:{of('base')})(?=\\.|->)"},
            {"name": "support.variable", "match": f"\\b(?:{of('value')})\\b"},
            {"name": "keyword.operator", "match": "<<=|>>=|==|!=|=~|!~|<=|>=|&&|\\|\\||<<|>>|\\+\\+|--|[-+*/%&|^]=|->|[-+*/%&|^~!<>=?]"},
        ],
    }


def check_completions(env, checks, trace):
    for text, has, lacks in (("Thread/CS", ["Thread/CSwitch"], ["Thread/Start"]), ("sched:::", ["sched:::on-cpu", "sched:::wakeup"], ["begin"]),
                             ("Thread/CSwitch { @[New", ["NewThreadId"], ["OldThreadId", "execname"]),
                             ("Microsoft-Windows-DNS-Client:3006 { @[Query", ["QueryName"], []), ("begin { @ = l", ["lquantize", "llquantize"], ["count"])):
        found = completions(env, text)
        checks.that(set(has) <= set(found) and not set(lacks) & set(found), f"{text!r}: {found[:20]}")
        checks.equal(found, sorted(set(found)), f"{text!r}: each word once, in order")
    checks.that("Contoso.Desk.Telemetry:DocumentOpened" in completions(env, "Contoso.Desk.Telemetry:", trace), "a class that the trace alone describes")
    checks.that("Millis" in completions(env, "DocumentOpened { @ = sum(Mil", trace), "its fields")
    checks.equal(completions(env, "DocumentOpened { @ = sum(Mil"), [], "they are not known without the trace")


def check_bash(env, checks):
    script = "source $1; COMP_WORDS=(\"$2\" watch -e \"$3\"); COMP_CWORD=3; _etwagent_watch; printf '%s\\n' \"${COMPREPLY[@]}\""
    for begun, has in (("'Thread/CS", "Thread/CSwitch"), ("'Thread/CSwitch { @[OldThreadWaitR", "Thread/CSwitch { @[OldThreadWaitReason"),
                       ("'begin { x = 1; } sched:::on-", "begin { x = 1; } sched:::on-cpu"), ("\"Thread/CSwitch /NewThreadI", "Thread/CSwitch /NewThreadId")):
        found = subprocess.run(["bash", "-c", script, "bash", FOLDER / "etwagent-watch.bash", env.agent, begun], capture_output=True, text=True,
                               check=True).stdout.split("\n")
        checks.that(has in found, f"bash after {begun}: {found[:10]}")


def check_grammar(env, checks, kinds, known):
    checks.equal(known, grammar(kinds), "config/editors has the grammar of these words (test_watch_editors.py --write)")
    for kind, these in kinds.items():
        checks.that(len(these) >= 2, f"words that are a {kind}: {these}")
    # each program of config/watch: no word of the language is left without a scope
    patterns = [(p["name"], re.compile(p["match"])) for p in known["patterns"] if "match" in p]
    samples = {"printf(": "support.function.statement", "quantize(": "support.function.aggregating", "ustack(": "support.function",
               "self.x": "variable.language", "execname": "support.variable", "else": "keyword.control", "@a": "variable.other.aggregation",
               "sched:::on-cpu": "entity.name.function.probe", "stack-missing {": "entity.name.function.probe", "tick:1s {": "entity.name.function.probe",
               "end {": "entity.name.function.probe", "10ms": "constant.numeric", "# x": "comment.line.number-sign"}
    for text, scope in samples.items():
        checks.equal(next((name for name, pattern in patterns if pattern.match(text)), None), scope, f"the scope of {text}")


def test(env, checks, arguments):
    trace, _ = test_tracegen.generate(env.build, env.folder, "office", "--preset", "office", "--duration-ms", "300")
    kinds = words(env, trace)
    if arguments.write:
        GRAMMAR.write_text(json.dumps(grammar(kinds), indent=2) + "\n", encoding="utf-8")
    check_completions(env, checks, trace)
    check_bash(env, checks)
    check_grammar(env, checks, kinds, json.loads(GRAMMAR.read_text(encoding="utf-8")))


if __name__ == "__main__":
    harness.main(test, __doc__, {"write": ("write the grammar of config/editors", {"action": "store_true"})})
