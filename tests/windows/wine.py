"""Windows programs on this machine: a Wine prefix in the build folder, made once, and a session in it that stays until the
`with` statement ends. One test has the prefix at a time.

    with wine.Session(build) as session:
        done = session.run(["sc", "query", "etwagent"])

Traps that this knows: without `wineserver -p` the session ends with the last program and kills services; the first program
of a session leaves children that hold its output; the default version is Windows 7; once in some thousand starts Wine's
loader leaves with 1 before it has the program, and says nothing; a driver that does not start in time is missing without a message.
"""
import fcntl
import os
import pathlib
import shutil
import subprocess
import time

VERSION = "win10"
PROGRAMS = ("wine", "wineserver")


class Missing(SystemExit):
    """Wine is not there. Uncaught it ends the test: no test of Windows may look green without it."""

    def __init__(self, message):
        super().__init__(f"FAILED: {message}")


def windows_path(path):
    """What a Windows program calls a path of this machine: on drive C:, if it is in a session's, else on Z:."""
    before, drive_c, inside = str(pathlib.Path(path).resolve()).partition("/wine/drive_c")
    return ("C:" + inside if drive_c else "Z:" + before).replace("/", "\\")


class Session:
    def __init__(self, build):
        missing = [program for program in PROGRAMS if not shutil.which(program)]
        if missing:
            raise Missing(f"{' and '.join(missing)} not found: installer/deps/packages.sh windows installs Wine")
        self.prefix = pathlib.Path(build).resolve() / "wine"
        self.drive = self.prefix / "drive_c"
        self.environment = {**os.environ, "WINEPREFIX": str(self.prefix), "WINEDEBUG": os.environ.get("WINEDEBUG", "-all"),
                            "WINEDLLOVERRIDES": "mscoree,mshtml=", "LC_ALL": "C.UTF-8"}
        self.environment.pop("DISPLAY", None)
        self.lock = None

    def _quiet(self, *command, timeout=600):
        """A program whose children may keep its output open."""
        code = subprocess.run(command, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, timeout=timeout, cwd=self.prefix).returncode
        if code not in (0, 1):
            raise Missing(f"{' '.join(command)} ended with {code}")

    def __enter__(self):
        self.prefix.mkdir(parents=True, exist_ok=True)
        self.lock = open(self.prefix / ".lock", "w")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        self._quiet("wineserver", "-k")  # of a test that was ended before it could end its own
        ready = self.prefix / ".ready"
        if not ready.exists():
            self._quiet("wine", "wineboot", "-i")
            self._quiet("wineserver", "-w")
            self._quiet("wine", "winecfg", "-v", VERSION)
            self._quiet("wine", "reg", "add", "HKLM\\System\\CurrentControlSet\\Control", "/v", "ServicesPipeTimeout", "/d", "120000", "/f")
            self._quiet("wineserver", "-w")
            if not (self.drive / "windows" / "system32" / "kernel32.dll").exists():
                raise Missing(f"Wine made no drive in {self.prefix}; see what `wineboot -i` says there")
            ready.write_text(VERSION)
        self.begin()
        return self

    def begin(self):
        """The session: services may run from here to the end. Also after end() or a kill. Wine gives a driver up that does not start in
        time on a busy machine; when the driver of the drives is missing, the session begins again."""
        for attempt in (1, 2, 3):
            self._quiet("wineserver", "-p")
            self._quiet("wine", "wineboot")
            try:
                wait_until(lambda: "\\DosDevices\\Z:" in self.run(["reg", "query", "HKLM\\System\\MountedDevices"]).stdout, "the drives of Wine", 60)
                return
            except TimeoutError as error:
                print(f"{error}, at attempt {attempt} of 3", flush=True)
                self.end()
        raise Missing("Wine starts, and its drives have no volumes: see `wine reg query HKLM\\System\\MountedDevices`")

    def end(self):
        """Everything that runs in it ends at once, without being asked, as in a power cut."""
        self._quiet("wineserver", "-k")
        self._quiet("wineserver", "-w")

    def __exit__(self, *_):
        try:
            self.end()
        finally:
            self.lock.close()

    def command(self, command):
        return ["wine", *[str(word) for word in command]]

    def run(self, command, timeout=300, **options):
        """Runs a Windows program to its end. The output is text without carriage returns. A program of ours that ends with code 1
        prints the reason. When the output is empty, Wine itself ended, and the program is started once more."""
        environment = {**self.environment, **options.pop("environment", {})}

        def start():
            return subprocess.run(self.command(command), env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, timeout=timeout, **options)
        done = start()
        if done.returncode == 1 and not done.stdout and not done.stderr:
            print(f"{' '.join(self.command(command))}: ended with 1 without a word, started once more", flush=True)
            done = start()
        done.stdout = done.stdout.decode("utf-8", "replace").replace("\r", "")
        done.stderr = done.stderr.decode("utf-8", "replace").replace("\r", "")
        return done

    def path(self, windows):
        """The path on this machine of C:\\..."""
        return self.drive / windows[3:].replace("\\", "/")

    def processes(self, image):
        """Ids, as this machine counts them, of the programs of that name that run in this prefix."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                own = f"WINEPREFIX={self.prefix}".encode() in (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            name = words[0].decode("utf-8", "replace").replace("\\", "/").rsplit("/", 1)[-1].strip('"')
            if own and name.lower() == image.lower():
                found.append(int(entry.name))
        return found


def wait_until(condition, what, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds} s for {what}")
        time.sleep(0.05)
