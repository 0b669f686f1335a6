"""The judges see a wrong answer: one condition of the sources is removed at a time (most of them the time of a join), the collector is linked with that
file, and the judges must name the answers that are wrong then. The unchanged collector's answers must be right.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Answers and pages 2: Each of five mistakes that are planted in joins is found by the judges. | 5 of 5 | 2026-11-28
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "e2e"), str(pathlib.Path(__file__).resolve().parents[1])]
import harness  # noqa: E402
import relink  # noqa: E402
import warm  # noqa: E402
import world  # noqa: E402

MACHINE, COLLECTOR = "made-reused", "collector/app/etwcollector"
# what is removed: (file, text, its replacement, the judge that is run, an answer that must be wrong)
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
        "collector/query/analysis/activity_rows.c", "return utc_ns >= a->from_utc_ns && utc_ns < a->to_utc_ns;", "return utc_ns >= a->from_utc_ns;", "judge_threads", "table thread_times"),
}


def test(env, checks, arguments):
    worlds = world.make(env, checks, [MACHINE])
    for one in worlds:
        one.collector.stop()
    wrong = warm.wrong_answers(env, worlds, env.collector, {row[3] for row in PLANTED.values()})
    checks.equal(wrong, [], "wrong answers when nothing is planted")
    made = relink.Relinked(env.build, env.folder / "planted", [COLLECTOR])
    with open(env.folder / "planted.log", "w", encoding="utf-8") as log:
        for what, (name, text, instead, judge, answer) in PLANTED.items():
            original = (relink.SOURCE / name).read_text(encoding="utf-8")
            checks.equal(original.count(text), 1, f"places in {name} where \"{what}\" is to be planted")
            if not made.change(name, original.replace(text, instead), log):
                raise harness.Failure(f"{name} does not compile with \"{what}\": {(env.folder / 'planted.log').read_text(encoding='utf-8')[-2000:]}")
            wrong = warm.wrong_answers(env, worlds, made.link(COLLECTOR, log), {judge})
            checks.that(answer in wrong, f"{what}: {answer} is not among the wrong answers {wrong}")
            print(f"{what}: {len(wrong)} answers are wrong", flush=True)


if __name__ == "__main__":
    harness.main(test, __doc__)
