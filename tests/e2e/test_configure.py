"""`etwagent configure`, which an installer runs with the rights of the system and with values from the user who installs.

- When a quote in a property splits the command line, options are there twice: the command refuses them, and writes nothing.
- A value with a quote or a control character is refused, and so is a value of --answers that adds another name.
- Good answers write the same configuration as the same options do.
"""
import subprocess

import harness

PROFILE = "sessions:\n- {name: one, kind: user, providers: [{provider: Microsoft-Windows-Kernel-Process}]}\n"
# What the repair of an MSI made of TOKEN=abc" --replace --profiles "C:\Users\me\p and PROFILE=evil, after Windows' rules for arguments
INJECTED = ["--collector", "https://collector.example", "--ca", "", "--profile", "evil", "--profiles", "profiles/.",
            "--enroll", "", "--token", "abc", "--replace", "--profiles", "evil"]


class World:
    def __init__(self, env):
        self.env, self.state = env, env.folder / "state"
        self.config = self.state / "etwagent" / "etwagent.yaml"
        for folder, text in (("profiles", PROFILE), ("evil", PROFILE + "schemas: {plugins: /tmp/evil}\n")):
            (env.folder / folder).mkdir()
            for name in ("default", "evil"):
                (env.folder / folder / f"{name}.yaml").write_text(text)

    def configure(self, *words, answers=b""):
        return subprocess.run([self.env.agent, "configure", *words], cwd=self.env.folder, input=answers, capture_output=True, timeout=60,
                              env={"XDG_STATE_HOME": str(self.state), "LC_ALL": "C.UTF-8"})

    def refused(self, checks, what, says, *words, answers=b""):
        before = self.config.read_bytes() if self.config.exists() else None
        done = self.configure(*words, answers=answers)
        checks.that(done.returncode == 2 and says.encode() in done.stderr, f"{what}: expected '{says}': {done.returncode} {done.stderr}")
        after = self.config.read_bytes() if self.config.exists() else None
        checks.equal(after, before, f"{what}: the configuration")


def test(env, checks, _):
    world = World(env)
    for attempt in ("without a configuration", "with one"):
        world.refused(checks, f"options given twice, {attempt}", "--profiles is given twice; expected it once", *INJECTED)
        for name, says in (("collector", "--collector"), ("token", "--token"), ("profile", "--profile"), ("ca", "--ca")):
            for bad, byte in (('a"b', "0x22 at byte 2"), ("a\nb", "0x0a at byte 2"), ("\x7f", "0x7f at byte 1")):
                words = [f"--{n}={bad if n == name else 'https://x'}" for n in dict.fromkeys(("collector", name))]
                world.refused(checks, f"--{name} {bad!r}", f"{says}: expected a value without quotes and control characters, found {byte}", *words)
        for answers, says in ((b"collector=https://x|profile=none|collector=https://evil", "collector is given twice"),
                              (b"collector=https://x|profile=evil|replace=1", "found 'replace'"),
                              (b"collector=https://x|config=/etc/passwd", "found 'config'"),
                              (b"collector=https://x|token-file=/etc/shadow", "found 'token-file'"),
                              (b"collector=https://x|--replace", "found '--replace'"), (b"", "found ''"),
                              (b'collector=https://x" --replace', "--collector: expected a value without quotes"),
                              (b"collector=https://x\nprofile=evil", "found 0x0a at byte 10"),
                              (b"collector=a\0b", "found a zero byte"), (b"collector=" + b"x" * 16384, "fewer than 16384 bytes")):
            world.refused(checks, f"--answers {answers[:40]}", says, "--answers", answers=answers)
        world.refused(checks, "an answer beside an option", "collector is given twice", "--answers", "--collector", "https://x",
                      answers=b"collector=https://x")
        if attempt == "without a configuration":
            done = world.configure("--answers", answers=b"collector=https://collector.example|ca=|profile=|profiles=profiles|enroll=|token=ece_x_y\n")
            checks.equal((done.returncode, done.stderr), (0, b""), "good answers")
            by_answers = world.config.read_text()
            checks.equal((world.config.parent / "token").read_text(), "ece_x_y", "the token")
    world.config.unlink()
    done = world.configure("--collector", "https://collector.example", "--profiles", "profiles", "--token", "ece_x_y")
    checks.equal((done.returncode, world.config.read_text()), (0, by_answers), "the configuration of the same options")
    checks.that("collector.example" in by_answers and "Kernel-Process" in by_answers, f"the configuration:\n{by_answers}")


if __name__ == "__main__":
    harness.main(test, __doc__)
