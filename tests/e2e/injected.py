"""System calls that another process is made to do: what the kernel answers is what code in that process would get. x86-64 alone, and only
where this process may trace the other one."""
import ctypes
import errno
import os
import platform
import signal
import struct

PTRACE_GETREGS, PTRACE_SETREGS, PTRACE_SINGLESTEP, PTRACE_ATTACH, PTRACE_DETACH = 12, 13, 9, 16, 17
WALL = 0x40000000
REGISTERS = "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss fs_base gs_base ds es fs gs".split()
CALLS = {"open": 2, "kill": 62, "ptrace": 101, "connect": 42, "socket": 41, "close": 3, "mount": 165, "process_vm_readv": 310, "bpf": 321, "execve": 59}
AVAILABLE = platform.machine() == "x86_64"


class Process:
    """with Process(pid) as p: p.call("open", b"/path", flags). The main thread is stopped meanwhile, and goes on as it was."""

    def __init__(self, pid):
        self.pid, self.libc = pid, ctypes.CDLL(None, use_errno=True)
        self.libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        self.libc.ptrace.restype = ctypes.c_long

    def _ptrace(self, request, data=None):
        if self.libc.ptrace(request, self.pid, None, data) < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), f"ptrace {request}")

    def __enter__(self):
        self._ptrace(PTRACE_ATTACH)
        os.waitpid(self.pid, WALL)
        self.memory = open(f"/proc/{self.pid}/mem", "r+b", buffering=0)
        self.saved = self._registers()
        with open(f"/proc/{self.pid}/maps") as maps:
            for line in maps:
                if " r-xp " in line and "libc" in line:
                    begin, end = (int(x, 16) for x in line.split()[0].split("-"))
                    break
        self.memory.seek(begin)
        self.instruction = begin + self.memory.read(end - begin).index(b"\x0f\x05")
        return self

    def __exit__(self, *_):
        # the kernel repeats or ends the call in which the thread was stopped, as for any other trace
        self._set(self.saved)
        self.memory.close()
        self._ptrace(PTRACE_DETACH)

    def _registers(self):
        room = ctypes.create_string_buffer(8 * len(REGISTERS))
        self._ptrace(PTRACE_GETREGS, room)
        return dict(zip(REGISTERS, struct.unpack(f"<{len(REGISTERS)}Q", room.raw)))

    def _set(self, registers):
        self._ptrace(PTRACE_SETREGS, struct.pack(f"<{len(REGISTERS)}Q", *(registers[name] for name in REGISTERS)))

    def call(self, name, *arguments):
        """The call's result, negative: an error's number. Arguments: numbers, or bytes, to which a pointer is passed."""
        at, values = self.saved["rsp"] - 8192 & ~0xfff, []
        for argument in arguments:
            if isinstance(argument, bytes):
                self.memory.seek(at)
                before = self.memory.read(len(argument) + 1)
                assert len(before) == len(argument) + 1
                self.memory.seek(at)
                self.memory.write(argument + b"\0")
                values.append(at)
                at += len(argument) + 16
            else:
                values.append(argument & (1 << 64) - 1)
        values += [0] * (6 - len(values))
        registers = dict(self.saved, rax=CALLS[name], orig_rax=(1 << 64) - 1, rip=self.instruction,
                         **dict(zip(("rdi", "rsi", "rdx", "r10", "r8", "r9"), values)))
        self._set(registers)
        self._ptrace(PTRACE_SINGLESTEP)
        _, status = os.waitpid(self.pid, WALL)
        assert os.WIFSTOPPED(status) and os.WSTOPSIG(status) == signal.SIGTRAP, f"the traced process: {status:#x}"
        result = self._registers()["rax"]
        return result - (1 << 64) if result >> 63 else result

    def error(self, name, *arguments):
        """The error's name; "" when the call was done (a descriptor that it gave is closed)."""
        result = self.call(name, *arguments)
        if result < 0:
            return errno.errorcode[-result]
        if name in ("open", "socket"):
            self.call("close", result)
        return ""
