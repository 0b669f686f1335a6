"""XXH3 with 64 bits, as xxHash 0.8 defines it, for the second reader of batches (format_reader.py)."""
import struct

MASK64 = (1 << 64) - 1
SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e")
P1, P2, P3 = 0x9e3779b185ebca87, 0xc2b2ae3d27d4eb4f, 0x165667b19e3779f9
P4, P5 = 0x85ebca77c2b2ae63, 0x27d4eb2f165667c5
Q1, Q2, Q3 = 0x9e3779b1, 0x85ebca77, 0xc2b2ae3d


def word(data, at):
    return int.from_bytes(data[at:at + 8], "little")


def fold(a, b):
    product = a * b
    return (product ^ (product >> 64)) & MASK64


def avalanche(h):
    h ^= h >> 37
    h = h * 0x165667919e3779f9 & MASK64
    return h ^ (h >> 32)


def avalanche64(h):
    h ^= h >> 33
    h = h * P2 & MASK64
    h ^= h >> 29
    h = h * P3 & MASK64
    return h ^ (h >> 32)


def mix(data, at, secret_at, seed):
    return fold(word(data, at) ^ (word(SECRET, secret_at) + seed & MASK64),
                word(data, at + 8) ^ (word(SECRET, secret_at + 8) - seed & MASK64))


def xxh3(data, seed=0):
    size = len(data)
    if size > 240:
        return xxh3_long(data)  # only records' data is so long, and has no seed
    if size > 16:
        h = size * P1
        if size <= 128:
            for i in range((size - 1) // 32, -1, -1):
                h += mix(data, 16 * i, 32 * i, seed) + mix(data, size - 16 * (i + 1), 32 * i + 16, seed)
            return avalanche(h & MASK64)
        for i in range(8):
            h += mix(data, 16 * i, 16 * i, seed)
        h = avalanche(h & MASK64)
        for i in range(8, size // 16):
            h += mix(data, 16 * i, 16 * (i - 8) + 3, seed)
        return avalanche(h + mix(data, size - 16, 136 - 17, seed) & MASK64)
    if size > 8:
        low = word(data, 0) ^ ((word(SECRET, 24) ^ word(SECRET, 32)) + seed & MASK64)
        high = word(data, size - 8) ^ ((word(SECRET, 40) ^ word(SECRET, 48)) - seed & MASK64)
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return avalanche(size + swapped + high + fold(low, high) & MASK64)
    if size > 3:
        seed ^= int.from_bytes((seed & 0xffffffff).to_bytes(4, "little"), "big") << 32
        both = int.from_bytes(data[size - 4:], "little") + (int.from_bytes(data[:4], "little") << 32)
        h = both ^ ((word(SECRET, 8) ^ word(SECRET, 16)) - seed & MASK64)
        h ^= (h << 49 | h >> 15) & MASK64 ^ (h << 24 | h >> 40) & MASK64
        h = h * 0x9fb21c651e98df25 & MASK64
        h ^= (h >> 35) + size
        h = h * 0x9fb21c651e98df25 & MASK64
        return h ^ (h >> 28)
    if size:
        combined = data[0] << 16 | data[size >> 1] << 24 | data[size - 1] | size << 8
        secret = int.from_bytes(SECRET[:4], "little") ^ int.from_bytes(SECRET[4:8], "little")
        return avalanche64(combined ^ (secret + seed & MASK64))
    return avalanche64(seed ^ word(SECRET, 56) ^ word(SECRET, 64))


STRIPE = struct.Struct("<8Q")


def xxh3_long(data):
    size = len(data)
    acc = [Q3, P1, P2, P3, P4, Q2, P5, Q1]

    def accumulate(at, secret_at):
        for i, (value, key) in enumerate(zip(STRIPE.unpack_from(data, at), STRIPE.unpack_from(SECRET, secret_at))):
            key ^= value
            acc[i ^ 1] = acc[i ^ 1] + value & MASK64
            acc[i] = acc[i] + (key & 0xffffffff) * (key >> 32) & MASK64

    stripes = (size - 1) // 64
    for i in range(stripes):
        accumulate(64 * i, 8 * (i % 16))
        if i % 16 == 15:
            for k, key in enumerate(STRIPE.unpack_from(SECRET, 128)):
                acc[k] = (acc[k] ^ acc[k] >> 47 ^ key) * Q1 & MASK64
    accumulate(size - 64, 121)
    h = size * P1
    for i in range(4):
        h += fold(acc[2 * i] ^ word(SECRET, 11 + 16 * i), acc[2 * i + 1] ^ word(SECRET, 19 + 16 * i))
    return avalanche(h & MASK64)
