"""Disks that fail: a small file system of one's own (tmpfs), the preload library of faults.c, and power cuts.

    with disk.Small(folder, megabytes=2): ...                      a full disk, when the test may mount
    faults = disk.Faults(env.build, folder, "sync:EIO@3;write:short%50", seed=1)
    subprocess.Popen(command, env=faults.environment())
    faults.happened()                                              Counter of "sync EIO", "write short", ...

    faults = disk.Faults(env.build, folder, undo=True)
    ... kill -9 ...
    faults.power_cut(rng)                                          what was never synced is gone
"""
import collections
import os
import pathlib
import struct
import subprocess
import tempfile

UNDO_HEAD = struct.Struct("<4sIQQQ")  # undo_head of faults.c


class Faults:
    """A preload library with its rules (see faults.c). folder need not exist yet; its parent must."""

    def __init__(self, build, folder, rules="", seed=0, files=None, undo=False, begin=True):
        self.library = pathlib.Path(build) / "tests" / "e2e" / "faults.so"
        if not self.library.exists():
            raise FileNotFoundError(f"{self.library} is missing; build it first")
        self.folder, self.rules, self.seed, self.files = pathlib.Path(folder).resolve(), rules, seed, files
        own = pathlib.Path(tempfile.mkdtemp(prefix="faults-", dir=self.folder.parent))
        self.log, self.under_way, self.over = own / "log", own / "under-way", own / "over"
        self.undo = own / "undo" if undo else None
        if begin:
            self.begin()

    def environment(self):
        """The environment of a program that is to meet the faults."""
        own = {"LD_PRELOAD": str(self.library), "EA_FAULT_FOLDER": str(self.folder), "EA_FAULT_RULES": self.rules,
               "EA_FAULT_SEED": str(self.seed), "EA_FAULT_LOG": str(self.log), "EA_FAULT_FROM": str(self.under_way),
               "EA_FAULT_UNTIL": str(self.over)}
        if self.files:
            own["EA_FAULT_FILES"] = self.files
        if self.undo:
            own["EA_FAULT_UNDO"] = str(self.undo)
        # the sanitizers' own runtime need not be the first library for them to work here
        own["ASAN_OPTIONS"] = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "verify_asan_link_order=0"]))
        return {**os.environ, **own}

    def begin(self):
        """Where it was made with begin=False: from now on calls fail, in running programs too."""
        self.under_way.touch()

    def end(self):
        """From now on everything works again, in running programs too."""
        self.over.touch()

    def happened(self):
        if not self.log.exists():
            return collections.Counter()
        with open(self.log, encoding="utf-8", errors="replace") as lines:
            return collections.Counter(" ".join(line.split(" ")[:2]) for line in lines)

    def power_cut(self, rng=None):
        """Undoes the writes that were never synced, as if the machine had lost power. Without rng, all such writes of each
        file are undone. With rng, only the writes after a random point are undone, since the system may have written the
        earlier ones on its own. The programs must have ended. Returns the number of undone writes."""
        open_writes = collections.defaultdict(list)
        for kind, inode, offset, size_before, old in self._undo_records():
            if kind in "SD":
                open_writes.pop(inode, None)
            else:
                open_writes[inode].append((offset, size_before, old))
        undone = 0
        for path in self.folder.rglob("*"):
            writes = open_writes.pop(path.stat().st_ino, None) if path.is_file() else None
            if not writes:
                continue
            kept = rng.randrange(len(writes) + 1) if rng else 0
            with open(path, "r+b") as file:
                for offset, size_before, old in reversed(writes[kept:]):
                    file.seek(offset)
                    file.write(old)
                    file.truncate(size_before)
                    undone += 1
        self.undo.unlink(missing_ok=True)
        return undone

    def _undo_records(self):
        data = self.undo.read_bytes() if self.undo.exists() else b""
        at = 0
        while at + UNDO_HEAD.size <= len(data):  # the last record may have been cut by the kill
            kind, old_bytes, inode, offset, size_before = UNDO_HEAD.unpack_from(data, at)
            end = at + UNDO_HEAD.size + old_bytes
            if end > len(data):
                break
            yield kind.rstrip(b"\0").decode(), inode, offset, size_before, data[at + UNDO_HEAD.size:end]
            at = end


def may_mount(folder):
    """Whether this process can mount a tmpfs (root, and not in a container that forbids it)."""
    probe = pathlib.Path(folder) / "probe"
    probe.mkdir()
    try:
        with Small(probe, 1):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False
    finally:
        probe.rmdir()


class Small:
    """A file system of so many megabytes mounted on folder."""

    def __init__(self, folder, megabytes):
        self.folder, self.megabytes = pathlib.Path(folder), megabytes

    def __enter__(self):
        self._mount(["-t", "tmpfs", "-o", f"size={int(self.megabytes * 1024)}k,mode=0700", "etwagent-test", str(self.folder)])
        return self

    def grow(self, megabytes):
        """There is space again."""
        self._mount(["-o", f"remount,size={int(megabytes * 1024)}k", str(self.folder)])

    def fill(self, leave_bytes=0):
        """Takes what space there is, but for so many bytes; returns the file to remove."""
        hog = self.folder / "hog"
        with open(hog, "wb", buffering=0) as file:
            for size in (1 << 20, 1 << 12):
                try:
                    while True:
                        file.write(b"x" * size)
                except OSError:
                    pass
            file.truncate(max(0, file.tell() - leave_bytes))
        return hog

    def _mount(self, arguments):
        subprocess.run(["mount", *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __exit__(self, *_):
        # lazily: a program that is being killed may still hold a file
        subprocess.run(["umount", "-l", str(self.folder)], check=True)
