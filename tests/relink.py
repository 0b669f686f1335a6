"""A program with one source file changed, for tests that plant mistakes: the file alone is compiled, and the program linked, with the commands of a
build of the unchanged sources. The build stays as it is: the programs are in a folder that has links to the rest of the build.
"""
import json
import os
import pathlib
import re
import shlex
import subprocess

SOURCE = pathlib.Path(__file__).resolve().parents[1]


class Relinked:
    """A folder like the build's, whose programs may have a changed file. targets: what may be linked, as paths in the build."""

    def __init__(self, build, folder, targets):
        self.build, self.folder, self.targets = build.resolve(), folder.resolve(), set(targets)
        rows = json.loads((self.build / "compile_commands.json").read_text(encoding="utf-8"))
        self.compilers = {os.path.relpath(row["file"], SOURCE): row["command"] for row in rows}
        self.linkers, self.object = {}, None
        self.mirror(pathlib.Path())

    def mirror(self, below):
        (self.folder / below).mkdir(parents=True, exist_ok=True)
        for entry in (self.build / below).iterdir():
            path = below / entry.name
            if any(target.startswith(f"{path}/") for target in self.targets):
                self.mirror(path)
            elif str(path) not in self.targets and not (self.folder / path).is_symlink():
                (self.folder / path).symlink_to(entry)

    def run(self, command, log):
        done = subprocess.run(command, shell=True, cwd=self.build, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        log.write(done.stdout)
        return done.returncode == 0

    def change(self, name, text, log):
        """Compiles a file with another text. Whether it compiles; link() gives programs with it from now on."""
        changed, self.object = self.folder / "changed.c", self.folder / "changed.o"
        changed.write_text(text, encoding="utf-8")
        command = self.compilers[name]
        was = re.search(r" -o (\S+) -c (\S+)", command)
        self.was = was[1]
        quoted = [shlex.quote(str(path)) for path in (self.object, changed)]
        return self.run(command[:was.start()] + f" -I{shlex.quote(str((SOURCE / name).parent))} -o {quoted[0]} -c {quoted[1]}", log)

    def link(self, target, log):
        """The path of a program that has the changed file; None when neither the file nor its library is in the program. The changed object precedes
        the libraries, so that no library gives the unchanged one."""
        if target not in self.linkers:
            done = subprocess.run(["ninja", "-t", "commands", target], cwd=self.build, stdout=subprocess.PIPE, text=True, check=True)
            self.linkers[target] = done.stdout.splitlines()[-1]
        command, made = self.linkers[target], self.folder / target
        quoted = shlex.quote(str(self.object))
        library = re.sub(r"CMakeFiles/(\w+)\.dir/.*", r"lib\1.a", self.was)
        if f" {self.was} " not in command and f" {library} " not in command:
            return None
        command = command.replace(f" {self.was} ", f" {quoted} ") if f" {self.was} " in command else command.replace(f" -o {target} ", f" {quoted} -o {target} ")
        made.unlink(missing_ok=True)
        if f" -o {target} " not in command or not self.run(command.replace(f" -o {target} ", f" -o {shlex.quote(str(made))} "), log):
            raise SystemExit(f"{target} cannot be linked with the changed file: see the log")
        return made
