"""The import hash of a PE image by its definition, with slices and dictionaries: MD5 over "library.function,..." in lower case. The names of
functions that are imported by number come from the exports of the libraries themselves where they are given.
"""
import hashlib
import struct


class Image:
    def __init__(self, data):
        self.data = data
        pe = struct.unpack_from("<I", data, 60)[0]
        sections, optional = struct.unpack_from("<H", data, pe + 6)[0], struct.unpack_from("<H", data, pe + 20)[0]
        self.wide = struct.unpack_from("<H", data, pe + 24)[0] == 0x20B
        self.directories = pe + 24 + (112 if self.wide else 96)
        self.sections = [struct.unpack_from("<III", data, pe + 24 + optional + 40 * i + 12) for i in range(sections)]

    def directory(self, number):
        return struct.unpack_from("<I", self.data, self.directories + 8 * number)[0]

    def at(self, address):
        return next(raw + address - begin for begin, size, raw in self.sections if begin <= address < begin + size)

    def text(self, address):
        at = self.at(address)
        return self.data[at:self.data.index(b"\0", at)].decode("latin-1").lower()


def exports(data):
    """{number: name in lower case}"""
    image = Image(data)
    at = image.at(image.directory(0))
    base, _, count, _, names, numbers = struct.unpack_from("<IIIIII", data, at + 16)
    names, numbers = image.at(names), image.at(numbers)
    return {base + struct.unpack_from("<H", data, numbers + 2 * i)[0]: image.text(struct.unpack_from("<I", data, names + 4 * i)[0]) for i in range(count)}


def imports(data, known):
    """known: {"ws2_32.dll": {number: name}}"""
    image, found = Image(data), []
    if not image.directory(1):
        return found
    at = image.at(image.directory(1))
    while True:
        table, _, _, name, addresses = struct.unpack_from("<IIIII", data, at)
        at += 20
        if not name and not addresses:
            return found
        library, entry = image.text(name), image.at(table or addresses)
        short = library.rsplit(".", 1)[0] if library.rsplit(".", 1)[-1] in ("dll", "sys", "ocx") else library
        while value := struct.unpack_from("<Q" if image.wide else "<I", data, entry)[0]:
            entry += 8 if image.wide else 4
            if value >> (63 if image.wide else 31):
                number = value & 0xFFFF
                found.append(f"{short}.{known.get(library, {}).get(number, f'ord{number}')}")
            else:
                found.append(f"{short}.{image.text((value & 0x7FFFFFFF) + 2)}")


def imphash(data, known):
    found = imports(data, known)
    return hashlib.md5(",".join(found).encode("latin-1")).hexdigest() if found else ""
