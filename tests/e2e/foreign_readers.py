"""Files of columns read by other programs: DuckDB and Apache Arrow's library for JavaScript, from npm (tests/foreign)."""
import json
import subprocess

import harness
import npm_packages

FOREIGN = harness.ROOT / "tests" / "foreign"


def answers(env, script, questions):
    """One answer of a script of tests/foreign to each question."""
    packages = npm_packages.installed(FOREIGN, env.build / "foreign")
    done = subprocess.run(["node", FOREIGN / script, packages], input="".join(json.dumps(q) + "\n" for q in questions), text=True, capture_output=True,
                          timeout=600, check=False)
    if done.returncode:
        raise harness.Failure(f"{script} ended with {done.returncode}: {done.stderr[-2000:]}")
    found = [json.loads(line) for line in done.stdout.split("\n")[:-1]]
    if len(found) != len(questions):
        raise harness.Failure(f"{script}: {len(questions)} questions, {len(found)} answers: {done.stderr[-2000:]}")
    return found
