"""Modules that are loaded and unloaded: an address belongs to the module that was loaded there at the sample's time, in profiles and in the
table stacks, for a 64-bit process, a 32-bit process on a 64-bit kernel, and drivers. When no module is loaded at the address, every format
names the last one as unloaded. The test builds the records itself, so that each sample's answer is known. The cases: a plug-in is loaded,
unloaded and replaced by others at the same base, also when its unload event was lost, or when its process ended and another process reuses
its number; samples at a time when no module is loaded; plug-ins that are loaded and unloaded so often that a counter of few bits, or a search
of few lifetimes, would give another plug-in's name.
"""
import collections
import json
import struct

import harness
import kernel_records as kernel
import profile_formats
import test_profile
import test_profile_forms
import test_single_records as single

LIVES = 700  # of each plug-in that comes and goes
MANY_LIVES = 70000  # more than 16 bits count; with --soak


class Made:
    """Records in the order of their clock, and how often each path is then sampled."""

    def __init__(self):
        self.records, self.want, self.clock = [], collections.Counter(), 1000
        self.counted, self.interrupted = collections.Counter(), collections.Counter()

    def add(self, make, *arguments, **options):
        self.clock += 10
        made = make(*arguments, self.clock, **options)
        self.records += made if isinstance(made, list) else [made]

    def samples(self, pid, count, program, *frames):
        """frames: (address, what it is called), the innermost first."""
        for _ in range(count):
            self.add(kernel.sample, pid, pid + 1, [address for address, _ in frames])
        self.want[program, *(label for _, label in reversed(frames))] += count

    def counts(self, pid, count, address, module):
        """Samples of a hardware counter."""
        for _ in range(count):
            self.add(lambda clock: single.system_record(15, 47, 2, struct.pack("<QIHH", address, pid + 1, 9, 0), clock))
        self.counted[module] += count

    def interrupts(self, count, routine, module):
        """DPCs; each module has routines of its own, as they are summed by routine."""
        for _ in range(count):
            self.add(lambda clock: single.system_record(15, 68, 2, struct.pack("<QQ", clock - 5, routine), clock))
        self.interrupted[module] += count


def comes_and_goes(made, pid, program, home, gate, base):
    """A program with its image and a gate (ntdll, or the module through which a 32-bit program calls a 64-bit kernel), which stay loaded, and
    plug-ins at one base. Each phase has its own number of samples, so that a wrong total shows which phase is wrong."""
    def image(name, size, at=base, **options):
        made.add(kernel.image, pid, at, size, name, **options)

    def both(count, first, second):
        """Samples in the plug-in, which the plug-in and the program called; and samples in the gate, which the plug-in called."""
        root = (home + 0x1500, f"{program}+0x1500")
        made.samples(pid, count, program, (base + 0x2111, first), (base + 0x7222, second), root)
        made.samples(pid, count, program, gate, (base + 0x7222, second), root)

    made.add(kernel.process, pid, program)
    made.add(kernel.thread, pid, pid + 1)
    image(program, 0x100000, home)
    image(gate[1].partition("+")[0], 0x10000, gate[0] & ~0xFFFF)
    image("first.dll", 0x40000)
    both(1, "first.dll+0x2111", "first.dll+0x7222")
    image("first.dll", 0x40000, unloads=True)
    both(2, "[unloaded first.dll]+0x2111", "[unloaded first.dll]+0x7222")  # no module is loaded: the last module at this address
    image("second.dll", 0x8000)
    both(4, "second.dll+0x2111", "second.dll+0x7222")
    made.samples(pid, 8, program, (base + 0x30333, "[unloaded first.dll]+0x30333"))  # after the end of second.dll, in the range of first.dll
    image("second.dll", 0x8000, unloads=True)
    image("first.dll", 0x40000)
    both(16, "first.dll+0x2111", "first.dll+0x7222")
    image("third.dll", 0x40000)  # the unload before it was lost
    both(32, "third.dll+0x2111", "third.dll+0x7222")
    image("third.dll", 0x40000, unloads=True)
    image("first.dll", 0x40000, base + 0x100000)
    made.samples(pid, 64, program, (base + 0x102111, "first.dll+0x2111"), (base + 0x7222, "[unloaded third.dll]+0x7222"))
    image("fourth.dll", 0x60000, base + 0xF0000)  # where the first was, whose unload was lost
    made.samples(pid, 128, program, (base + 0x102111, "fourth.dll+0x12111"))


def drivers(made, pid, program, at, base):
    """The same above: a driver goes, another comes; the user half of the stacks stays."""
    for count, name in ((3, "old.sys"), (5, "new.sys"), (9, "old.sys")):
        made.add(kernel.image, 0, base, 0x20000, name)
        made.samples(pid, count, program, (base + 0x456, f"{name}+0x456"), at)
        made.counts(pid, 2 * count, base + 0x456, name)
        made.interrupts(2 * count, base + 0x1456 + count, name)
        made.add(kernel.image, 0, base, 0x20000, name, unloads=True)
        made.samples(pid, 20 * count, program, (base + 0x456, f"[unloaded {name}]+0x456"), at)
        made.counts(pid, count, base + 0x456, f"[unloaded {name}]")
        made.interrupts(count, base + 0x456 + count, f"[unloaded {name}]")


def often(made, pid, program, base, lives):
    """Two plug-ins take turns; the first, the last and some lives between are sampled."""
    for life in range(2 * lives):
        name = ("even.dll", "odd.dll")[life % 2]
        made.add(kernel.image, pid, base, 0x4000, name)
        if life < 4 or life % 101 == 0 or life >= 2 * lives - 4:
            made.samples(pid, 1, program, (base + 0x123, f"{name}+0x123"))
        made.add(kernel.image, pid, base, 0x4000, name, unloads=True)


def same_number(made, pid, program, base):
    """The process ends with its plug-in, and another one has its number and another plug-in there."""
    made.add(kernel.process, pid, program)
    made.add(kernel.thread, pid, pid + 1)
    made.add(kernel.image, pid, base, 0x10000, "mine.dll")
    made.samples(pid, 7, program, (base + 0x99, "mine.dll+0x99"))
    made.add(kernel.process, pid, program, ends=True)
    made.add(kernel.process, pid, "next.exe")
    made.add(kernel.thread, pid, pid + 1)
    made.add(kernel.image, pid, base, 0x10000, "yours.dll")
    made.samples(pid, 11, "next.exe", (base + 0x99, "yours.dll+0x99"))


def check(env, checks, collector, name, make):
    made = Made()
    make(made)
    path = env.folder / f"{name}.etl"
    path.write_bytes(single.trace(made.records))
    env.replay([path], collector, agent=name, spool=env.folder / f"{name}-spool")
    asked = test_profile.Asked(env, collector.store)
    options = ["--host", name, "--weight", "samples"]
    reported = profile_formats.folded(asked.text(*options, "--format", "folded"))
    for form, read in test_profile_forms.FORMS.items():
        text = asked.raw(*options, "--format", form)
        checks.that(read(text if form == "pprof" else text.decode()) == made.want, f"{name}: {form} holds something else")
    top = asked.text(*options, "--format", "top")
    unloaded = {frame[len("[unloaded "):].partition("]")[0] for path in made.want for frame in path if frame.startswith("[unloaded ")}
    modules = asked.json(*options)["modules"]
    checks.equal({m["path"].rsplit("\\", 1)[-1] for m in modules if m["unloaded"]}, unloaded, f"{name}: unloaded modules")
    checks.that(all((m["name"] == f"[unloaded {test_profile.base_name(m['path'])}]") == m["unloaded"] for m in modules), f"{name}: names of modules")
    checks.that(all(f"  [unloaded {module}]" in top for module in unloaded), f"{name}: unloaded modules in the form top")
    checks.that(reported == made.want, f"{name}: {sum((made.want - reported).values())} of {sum(made.want.values())} samples are missing, such as "
                f"{list((made.want - reported).items())[:2]} and {list((reported - made.want).items())[:2]}")
    rows = env.run([env.collector, "query", "--store", collector.store, "--host", name, "--format", "jsonl", "--rows", "0",
                    "SELECT image, frames, count FROM stacks WHERE name = 'PerfInfo/SampleProf'"]).stdout.splitlines()
    got = collections.Counter()
    for row in map(json.loads, rows):
        frames = [(f"[unloaded {f['module']}]" if f.get("unloaded") else f["module"]) + f"+{f['offset']}" if "module" in f else f["address"]
                  for f in reversed(json.loads(row["frames"]))]
        got[row["image"], *frames] += row["count"]
    checks.equal(got, made.want, f"{name}: the table stacks")
    for table, column, want in (("module_counters", "samples", made.counted), ("interrupt_times", "count", made.interrupted)):
        rows = env.run([env.collector, "query", "--store", collector.store, "--host", name, "--format", "jsonl",
                        f"SELECT module, sum({column}) AS n FROM {table} GROUP BY module"]).stdout.splitlines()
        checks.equal({row["module"]: row["n"] for row in map(json.loads, rows)}, dict(want), f"{name}: {table}")
    return made.want


def test(env, checks, arguments):
    env.make_certificates(("plug-ins", "drivers", "often", "same-number"))
    collector = env.new_collector().start()

    def plug_ins(made):
        comes_and_goes(made, 1234, "plug64.exe", 0x7FF640000000, (0x7FF8E0004321, "ntdll.dll+0x4321"), 0x7FF8A0000000)
        # the 64-bit gate of a 32-bit program is below 4 GB, as its modules are
        comes_and_goes(made, 1300, "plug32.exe", 0x00400000, (0x77C2002A, "wow64cpu.dll+0x2a"), 0x6A000000)
        # a 32-bit runtime's walk is the last one: the kernel's addresses are 64 bits wide all the same
        made.add(kernel.runtime_walk, 1300, 1301, [0x00401500], narrow=True)
    want = check(env, checks, collector, "plug-ins", plug_ins)
    checks.equal(sum(want.values()), 2 * (2 * 55 + 8 + 64 + 128), "samples of plug-ins")

    def kernel_only(made):
        made.add(kernel.process, 1300, "plug32.exe")
        made.add(kernel.thread, 1300, 1301)
        made.add(kernel.image, 1300, 0x00400000, 0x100000, "plug32.exe")
        drivers(made, 1300, "plug32.exe", (0x00401500, "plug32.exe+0x1500"), 0xFFFFF80150000000)
    check(env, checks, collector, "drivers", kernel_only)

    def turns(made):
        for pid, program, base in ((1234, "plug64.exe", 0x7FF8A0000000), (1300, "plug32.exe", 0x6A000000)):
            made.add(kernel.process, pid, program)
            made.add(kernel.thread, pid, pid + 1)
            often(made, pid, program, base, MANY_LIVES // 2 if arguments.soak else LIVES)
    check(env, checks, collector, "often", turns)
    check(env, checks, collector, "same-number", lambda made: same_number(made, 1300, "plug32.exe", 0x6A000000))
    collector.stop()


if __name__ == "__main__":
    harness.main(test, __doc__)
