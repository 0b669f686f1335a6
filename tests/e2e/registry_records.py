"""Events of Microsoft-Windows-Kernel-Registry, and what each of them says: (id, key's path, its short form, value's name, type, data, as Sysmon
writes it). For test_registry.py, and tests/windows/test_knobs.py.
"""
import struct
import uuid

PROVIDER = uuid.UUID("70eb4f03-c1de-4f73-a051-33d13d5413bd")
CREATE, DELETE, SET, DELETE_VALUE = 1, 3, 5, 6
KEYWORDS = {CREATE: 0x1000, DELETE: 0x4000, SET: 0x100, DELETE_VALUE: 0x200}
NONE, SZ, EXPAND, BINARY, DWORD, MULTI, QWORD = 0, 1, 2, 3, 4, 7, 11
RUN = "SOFTWARE\\Microsoft\\Windows\\CurrentVersion\\Run"
USER = "S-1-5-21-1-2-3-1001"


def text(value):
    return value.encode("utf-16-le") + b"\0\0"


# path, its short form, name, type, data, rendered
VALUES = [
    (f"\\REGISTRY\\MACHINE\\{RUN}", f"HKLM\\{RUN}", "Größe", SZ, text("C:\\tools\\größe.exe /q"), "C:\\tools\\größe.exe /q"),
    (f"\\REGISTRY\\USER\\{USER}\\{RUN}", f"HKU\\{USER}\\{RUN}", "Path", EXPAND, text("%TEMP%\\a.exe"), "%TEMP%\\a.exe"),
    ("\\REGISTRY\\MACHINE\\SYSTEM\\ControlSet001\\Control\\Lsa", "HKLM\\System\\CurrentControlSet\\Control\\Lsa", "RunAsPPL", DWORD, struct.pack("<I", 1),
     "DWORD (0x00000001)"),
    ("\\REGISTRY\\MACHINE\\SOFTWARE\\Classes\\exefile", "HKCR\\exefile", "Limit", QWORD, struct.pack("<Q", 0x500000001), "QWORD (0x00000005-0x00000001)"),
    (f"\\REGISTRY\\USER\\{USER}_Classes\\ms-settings", f"HKU\\{USER}_Classes\\ms-settings", "", SZ, text(""), "(Empty)"),
    ("\\REGISTRY\\A\\{0}\\Root", "\\REGISTRY\\A\\{0}\\Root", "Blob", BINARY, bytes(range(200)) * 4, "Binary Data"),
    ("\\REGISTRY\\MACHINE\\SOFTWARE\\A", "HKLM\\SOFTWARE\\A", "Many", MULTI, text("a") + text("b") + b"\0\0", "Binary Data"),
    ("\\REGISTRY\\MACHINE\\SOFTWARE\\A", "HKLM\\SOFTWARE\\A", "Nothing", NONE, b"", "(Empty)"),
]


def event(number, payload, clock, pointer=8, pid=100):
    body = struct.pack("<BBHHIIq", 19 if pointer == 8 else 18, 0xC0, 0x40 if pointer == 8 else 0x20, 0, pid + 1, pid, clock) + PROVIDER.bytes_le + \
        struct.pack("<HBBBBHQII", number, 0, 0, 4, 31 + number, 0, KEYWORDS[number], 0, 0) + bytes(16) + payload
    return struct.pack("<H", 2 + len(body)) + body


def set_value(path, name, kind, data, clock, captured=True, pointer=8):
    before = struct.pack("<IIH", DWORD, 4, 4 if captured else 0) + (b"\7\0\0\0" if captured else b"")
    return event(SET, struct.pack("<Q" if pointer == 8 else "<I", 0xFFFF9A0000000000 + clock if pointer == 8 else clock) + struct.pack("<III", 0, kind, len(data)) +
                 text(path) + text(name) + struct.pack("<H", len(data) if captured else 0) + (data if captured else b"") + before, clock, pointer)


def records():
    """Each value with its data and without, of 64 and 32 bit, and the other events of a key's life."""
    made, clock = [], 1000
    for captured in (True, False):
        for pointer in (8, 4):
            for path, _, name, kind, data, _ in VALUES:
                made.append(set_value(path, name, kind, data, clock, captured, pointer))
                clock += 10
    key = struct.pack("<Q", 0xFFFF9A0000000000)
    made.append(event(CREATE, key + key + struct.pack("<II", 0, 1) + text("\\REGISTRY\\MACHINE") + text("SOFTWARE\\A"), clock))
    made.append(event(DELETE_VALUE, key + struct.pack("<I", 0) + text("\\REGISTRY\\MACHINE\\SOFTWARE\\A") + text("Many"), clock + 10))
    made.append(event(DELETE, key + struct.pack("<I", 0) + text("\\REGISTRY\\MACHINE\\SOFTWARE\\A"), clock + 20))
    return made
