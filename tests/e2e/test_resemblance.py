"""Does a generated office machine look like real ones? Its events of the kinds that real traces hold (what each kind's share is,
how large payloads are, how events follow each other on a processor) beside the same figures of real traces, side by side. Each
figure of ours has to lie among the real machines' own, within a factor that the table states. One real trace alone has samples,
stacks, disk and network in bulk; no real one has context switches, file operations or registry events.
"""
import collections
import re
import statistics
import subprocess

import harness
import test_tracegen
import traces

REAL = ["clr-kernel-win8-x64", "diagsession-four-files", "shutdown-win10", "tracelogging-win11-20cpu"]
SECONDS = 10
LINE = re.compile(rb'"clock":(-?\d+),.*?"name":"([^"]*)",.*?"cpu":(\d+),.*"payload":"([0-9a-f]*)"')
# kinds: what a profiler's session records of a machine; rundowns, which are as long as the machine is large, by themselves
KINDS = [
    ("samples", r"PerfInfo/SampleProf$"),
    ("stacks", r"StackWalk/(Stack|StackKeyKernel|StackKeyUser)$"),
    ("definitions of stack keys", r"StackWalk/Key(Delete|Rundown)$"),
    ("begins and ends of processes, threads, modules", r"(Process|Thread|Image)/(Start|End|Load|UnLoad)$"),
    ("rundown of processes, threads, modules", r"(Process|Thread|Image)/(DCStart|DCEnd)$"),
    ("files and PDBs of modules", r"ImageID/"),
    ("disk", r"DiskIo/"),
    ("names of files", r"FileIo/File(Rundown|Create|Delete)$"),
    ("hard faults", r"PageFault/HardFault$"),
    ("TCP and UDP", r"(Tcp|Udp)Ip/"),
]
SIZES = ["PerfInfo/SampleProf", "StackWalk/Stack", "StackWalk/StackKeyKernel", "StackWalk/StackKeyUser", "StackWalk/KeyRundown",
         "StackWalk/KeyDelete", "Process/DCStart", "Process/Start", "Process/End", "Thread/DCStart", "Thread/Start", "Thread/End",
         "Image/DCStart", "Image/Load", "Image/UnLoad", "ImageID/Info", "ImageID/DbgID_RSDS", "DiskIo/Read", "DiskIo/Write",
         "FileIo/FileRundown", "FileIo/FileCreate", "PageFault/HardFault", "TcpIp/SendIPV4", "TcpIp/RecvIPV4", "UdpIp/SendIPV4",
         "UdpIp/RecvIPV4"]


class Figures:
    """What one trace has of each kind."""

    def __init__(self, agent, paths):
        kinds = [(kind, re.compile(pattern)) for kind, pattern in KINDS]
        kind_of, self.counts, self.sizes = {}, collections.Counter(), collections.defaultdict(list)
        last, self.gaps, self.sample_gaps = {}, [], []
        stats = subprocess.run([agent, "stats", "--json", *paths], check=True, stdout=subprocess.PIPE).stdout
        frequency = int(re.search(rb'"clock_frequency":\s*(\d+)', stats).group(1))
        dump = subprocess.Popen([agent, "dump", "--no-names", "--format", "raw", *paths], stdout=subprocess.PIPE)
        for line in dump.stdout:
            match = LINE.search(line)
            if not match:
                continue
            clock, name, cpu = int(match.group(1)), match.group(2).decode(), int(match.group(3))
            if name not in kind_of:
                kind_of[name] = next((kind for kind, pattern in kinds if pattern.match(name)), None)
            kind = kind_of[name]
            if not kind:
                continue
            self.counts[kind] += 1
            self.sizes[name].append(len(match.group(4)) // 2)
            if kind in ("samples", "stacks", "disk", "hard faults", "TCP and UDP"):  # what the machine does, no rundown
                if cpu in last:
                    self.gaps.append((clock - last[cpu]) * 1e6 / frequency)
                last[cpu] = clock
            if kind == "samples":
                if ("sample", cpu) in last:
                    self.sample_gaps.append((clock - last["sample", cpu]) * 1e6 / frequency)
                last["sample", cpu] = clock
        if dump.wait():
            raise harness.Failure(f"dump of {paths} failed")

    def share(self, kind):
        return 100 * self.counts[kind] / max(1, self.counts.total())

    def size(self, name, cut):
        values = sorted(self.sizes[name])
        return values[min(len(values) - 1, int(len(values) * cut))] if len(values) >= 5 else None

    def gap(self, cut):
        values = sorted(self.gaps)
        return values[int(len(values) * cut)] if len(values) >= 1000 else None


def test(env, checks, arguments):
    if not checks.real("resemblance: a generated office machine beside four real ones"):
        return
    # the real sessions' own settings: 1,000 samples a second on each processor, stacks by key and plain
    scenario = env.folder / "office.yaml"
    scenario.write_text(f"base: office\nduration_ms: {SECONDS * 1000}\nsession: {{samples_per_second: 1000, events: [process, thread, image, "
                        "sample, disk, filename, hardfault, tcpip, udpip, config, stack]}\nstacks: {of: {samples: 100, disk: 0, files: 0, registry: 0, events: 0, threads: 0}}\n")
    trace, _ = test_tracegen.generate(env.build, env.folder, "office", "--preset", scenario)
    ours = Figures(env.agent, [trace])
    real = {name: Figures(env.agent, traces.paths(name, env.build)) for name in REAL}
    print(f"{'':55} {'factor':>6} {'office':>9}  " + " ".join(f"{name[:22]:>22}" for name in REAL))

    def compare(what, factor, figure, unit):
        mine, theirs = figure(ours), [figure(f) for f in real.values()]
        there = [value for value in theirs if value is not None]
        shown = " ".join(f"{'-' if value is None else format(value, '.4g'):>22}" for value in theirs)
        print(f"{what + ', ' + unit:55} {factor:6g} {'-' if mine is None else format(mine, '.4g'):>9}  {shown}")
        if mine is None or not there:
            return 0
        checks.that(min(there) / factor <= mine <= max(there) * factor, f"{what}: {mine:.4g} {unit}, real machines have {there}, the factor is {factor}")
        return 1

    compared = 0
    for kind, _ in KINDS:
        compared += compare(kind, 5, lambda f, kind=kind: f.share(kind) if f.counts[kind] else None, "% of them")
    for name in SIZES:
        for what, cut in (("median", 0.5), ("95 %", 0.95)):
            compared += compare(f"{name}: payload, {what}", 1.5, lambda f, name=name, cut=cut: f.size(name, cut), "bytes")
    for cut, factor in ((0.1, 10), (0.5, 3), (0.9, 2), (0.99, 2)):
        compared += compare(f"time to the processor's next event, {cut:.0%}", factor, lambda f, cut=cut: f.gap(cut), "us")
    compared += compare("time to the processor's next sample, median", 1.2,
                        lambda f: statistics.median(f.sample_gaps) if len(f.sample_gaps) > 1000 else None, "us")
    checks.that(compared > 30, f"{compared} figures were compared")


if __name__ == "__main__":
    harness.main(test, __doc__)
