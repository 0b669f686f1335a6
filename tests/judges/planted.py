#!/usr/bin/env python3
"""The judges see a wrong answer: in a copy of the sources one condition is removed at a time (most of them the time of a join), the programs are
built, and the judges must name the answers that are wrong then. Unchanged, the copy must pass. Part of the long form.

usage: tests/judges/planted.py [--folder DIR]     DIR: where the copy is made and kept, for a compiler cache's sake; default build/planted
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Answers and pages 2: Each of five mistakes that are planted in joins is found by the judges. | 5 of 5 | 2026-11-27
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ["etwagent", "etwcollector", "tracegen"]
MACHINES = "made-reused"
# what is removed: (file, text, its replacement, judges that are run, an answer that must be wrong)
PLANTED = {
    "a thread number's samples belong to the first thread that had it": (
        "collector/query/analysis/address_space.c", "return s.count ? last_begun(s, &p->threads->begin, sizeof *p->threads, utc_ns) : (uint32_t)EC_NO_THREAD;",
        "(void)utc_ns; return s.count ? s.first : (uint32_t)EC_NO_THREAD;", "judge_usage", "query top-processes-by-cpu"),
    "a process number belongs to the first process that had it": (
        "collector/query/analysis/address_space.c", "last_begun(s, &p->processes->life.begin_utc_ns, sizeof *p->processes, utc_ns)", "s.first", "judge_usage", "table file_usage"),
    "a list of processes at a time has those that had ended": (
        "collector/web/questions.c", '#define OVERLAPS "begin <= ?3 AND (\\"end\\" IS NULL OR \\"end\\" > ?2)"', '#define OVERLAPS "begin <= ?3 AND ?2 = ?2"',
        "judge_lists", "route /api/v1/hosts/{host}/processes"),
    "files that a process opened are those of its number at any time": (
        "collector/web/questions.c", "AND pid = (SELECT pid FROM p) AND time >= (SELECT begin FROM p) AND time < coalesce((SELECT \\\"end\\\" FROM p),\"\n     \" 9223372036854775807)) SELECT path",
        "AND pid = (SELECT pid FROM p)) SELECT path", "judge_doings", "route /api/v1/hosts/{host}/processes/{stream}/{instance}/files"),
    "a range of an activity table has what ended after it": (
        "collector/query/analysis/activity.c", "return utc_ns >= a->from_utc_ns && utc_ns < a->to_utc_ns;", "return utc_ns >= a->from_utc_ns;", "judge_threads", "table thread_times"),
}


def copy_to(folder):
    """The sources as they are now, each file only where it differs, so that little is built again."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=SOURCE, stdout=subprocess.PIPE, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        source, target = SOURCE / name, folder / name
        if source.is_file() and (not target.exists() or target.read_bytes() != source.read_bytes()):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            shutil.copymode(source, target)


def build(folder, log):
    environment = {**os.environ, "CCACHE_BASEDIR": str(folder), "CCACHE_NOHASHDIR": "1"}
    commands = [["cmake", "--preset", "dev"]] * (not (folder / "build/dev/build.ninja").exists()) + \
        [["cmake", "--build", "--preset", "dev", "-j", str(os.cpu_count()), "--target", *PROGRAMS]]
    for command in commands:
        done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, check=False)
        log.write(done.stdout)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} in {folder} ended with {done.returncode}:\n{done.stdout[-3000:]}")


def judged(folder, judges, log):
    """The answers that the judges find wrong, and whether the test failed; None where it did not come to an end."""
    done = subprocess.run([sys.executable, folder / "tests/judges/test_answers.py", "--build", folder / "build/dev", "--only", judges, "--machines", MACHINES],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    log.write(done.stdout)
    if not re.search(r"^\d+ passed, \d+ failed", done.stdout, re.M):
        raise SystemExit(f"the judges did not come to an end:\n{done.stdout[-3000:]}")
    return set(re.findall(r"^FAILED: (.+?) of [^ ]+: \d+ of \d+ rows differ", done.stdout, re.M)), done.returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=pathlib.Path, default=SOURCE / "build" / "planted")
    folder = parser.parse_args().folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    copy_to(folder)
    failures = 0
    with open(folder / "planted.log", "w", encoding="utf-8") as log:
        build(folder, log)
        wrong, code = judged(folder, ",".join(sorted({row[3] for row in PLANTED.values()})), log)
        print(f"{'ok     ' if not wrong and not code else 'FAILED '} nothing is planted: {sorted(wrong) or 'no answer is wrong'}", flush=True)
        failures += bool(wrong or code)
        for what, (name, text, instead, judges, answer) in PLANTED.items():
            path = folder / name
            original = path.read_text(encoding="utf-8")
            if original.count(text) != 1:
                raise SystemExit(f"{name} has {original.count(text)} times, not once, what is to be removed for \"{what}\": mend PLANTED")
            path.write_text(original.replace(text, instead), encoding="utf-8")
            try:
                build(folder, log)
                wrong, code = judged(folder, judges, log)
            finally:
                path.write_text(original, encoding="utf-8")
            caught = code != 0 and answer in wrong
            failures += not caught
            print(f"{'ok     ' if caught else 'FAILED '} {what}: {len(wrong)} answers are wrong, {answer} is {'' if answer in wrong else 'not '}among them", flush=True)
    print(f"{len(PLANTED) + 1 - failures} passed, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
