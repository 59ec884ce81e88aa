#!/usr/bin/env python3
"""A model of the records of links, written from docs/PROTOCOL.md 17.5, RFC 8439, RFC 5869 and NIST
SP 800-38D, and not from the C; its ciphers are its own. Prints known answers, which test_record.c
compares with what the C seals:

    record_model.py > record_answers.txt      after a change of the format: a new protocol version
    record_model.py --check record_answers.txt

Each line: cipher, secret, how many blocks a key seals, and the records, each as the length of its
content and all of its bytes in hexadecimal. Byte j of the content of record i is 31 i + 7 j; no
content says the end."""

import hashlib
import hmac
import pathlib
import struct
import sys

BLOCKS_ALWAYS = 1 << 32

# ---- AES-128 (FIPS 197) ----


def times(a, b):
    """In GF(2^8)."""
    product = 0
    while b:
        product ^= a if b & 1 else 0
        a = a << 1 ^ (0x11B if a & 0x80 else 0)
        b >>= 1
    return product


def substitute(byte):
    inverse = next((b for b in range(256) if times(byte, b) == 1), 0)
    turned = inverse
    for shift in range(1, 5):
        turned ^= (inverse << shift | inverse >> (8 - shift)) & 0xFF
    return turned ^ 0x63


SBOX = bytes(substitute(byte) for byte in range(256))


def aes_round_keys(key):
    words, constant = [list(key[i : i + 4]) for i in range(0, 16, 4)], 1
    for i in range(4, 44):
        word = list(words[-1])
        if i % 4 == 0:
            word = [SBOX[b] for b in word[1:] + word[:1]]
            word[0] ^= constant
            constant = times(constant, 2)
        words.append([a ^ b for a, b in zip(word, words[i - 4])])
    return [sum(words[i : i + 4], []) for i in range(0, 44, 4)]


def aes(keys, block):
    state = [a ^ b for a, b in zip(block, keys[0])]
    for turn in range(1, 11):
        state = [SBOX[state[(i + 4 * (i % 4)) % 16]] for i in range(16)]  # SubBytes and ShiftRows
        if turn < 10:
            mixed = []
            for i in range(0, 16, 4):
                c = state[i : i + 4]
                mixed += [times(c[j], 2) ^ times(c[(j + 1) % 4], 3) ^ c[(j + 2) % 4] ^ c[(j + 3) % 4] for j in range(4)]
            state = mixed
        state = [a ^ b for a, b in zip(state, keys[turn])]
    return bytes(state)


def pad(data):
    return data + bytes(-len(data) % 16)


def aes_128_gcm(key, nonce, header, content):
    """Sealed content and tag."""
    keys = aes_round_keys(key)
    stream = b"".join(aes(keys, nonce + struct.pack(">I", 2 + i)) for i in range((len(content) + 15) // 16))
    sealed = bytes(a ^ b for a, b in zip(content, stream))
    h = int.from_bytes(aes(keys, bytes(16)), "big")
    y = 0
    data = pad(header) + pad(sealed) + struct.pack(">QQ", 8 * len(header), 8 * len(sealed))
    for i in range(0, len(data), 16):
        x, y, v = y ^ int.from_bytes(data[i : i + 16], "big"), 0, h
        for bit in range(127, -1, -1):
            y ^= v if x >> bit & 1 else 0
            v = v >> 1 ^ (0xE1 << 120 if v & 1 else 0)
    mask = int.from_bytes(aes(keys, nonce + struct.pack(">I", 1)), "big")
    return sealed, (y ^ mask).to_bytes(16, "big")


# ---- ChaCha20-Poly1305 ----


def chacha20(key, counter, nonce):
    start = list(struct.unpack("<16I", b"expand 32-byte k" + key + struct.pack("<I", counter) + nonce))
    s = list(start)
    columns = [(0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)]
    diagonals = [(0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)]
    for a, b, c, d in 10 * (columns + diagonals):
        for x, y, z, shift in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            s[x] = s[x] + s[y] & 0xFFFFFFFF
            s[z] ^= s[x]
            s[z] = (s[z] << shift | s[z] >> (32 - shift)) & 0xFFFFFFFF
    return struct.pack("<16I", *((a + b) & 0xFFFFFFFF for a, b in zip(s, start)))


def chacha20_poly1305(key, nonce, header, content):
    stream = b"".join(chacha20(key, 1 + i, nonce) for i in range((len(content) + 63) // 64))
    sealed = bytes(a ^ b for a, b in zip(content, stream))
    one_time = chacha20(key, 0, nonce)
    r = int.from_bytes(one_time[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    total = 0
    data = pad(header) + pad(sealed) + struct.pack("<QQ", len(header), len(sealed))
    for i in range(0, len(data), 16):
        total = (total + int.from_bytes(data[i : i + 16] + b"\1", "little")) * r % (2**130 - 5)
    return sealed, ((total + int.from_bytes(one_time[16:32], "little")) % 2**128).to_bytes(16, "little")


CIPHERS = {"aes-128-gcm": (aes_128_gcm, 16), "chacha20-poly1305": (chacha20_poly1305, 32)}

# ---- records ----


def expand(secret, info, length=32):
    """HKDF-Expand, up to one block."""
    return hmac.new(secret, info + b"\1", hashlib.sha256).digest()[:length]


def seal_all(cipher, secret, blocks_max, lengths):
    """The records, one after another."""
    seal, key_bytes = CIPHERS[cipher]
    used = 0
    for number, length in enumerate(lengths):
        blocks = 2 + (length + 15) // 16
        if used and used + blocks > blocks_max:
            secret, used = expand(secret, b"pccl record next 1"), 0
        used += blocks
        key = expand(secret, b"pccl record key 1", key_bytes)
        base = int.from_bytes(expand(secret, b"pccl record nonce 1", 12), "big")
        header = struct.pack("<IQ", length | (1 if length else 2) << 24, number)
        content = bytes((31 * number + 7 * j) % 256 for j in range(length))
        sealed, tag = seal(key, (base ^ number).to_bytes(12, "big"), header, content)
        yield header + sealed + tag


def answers():
    lengths = [1, 15, 16, 17, 4, 100, 255, 1000, 33, 64, 65, 0]
    for cipher in CIPHERS:
        for blocks_max in (BLOCKS_ALWAYS, 1, 9):
            secret = hashlib.sha256(f"{cipher} {blocks_max}".encode()).digest()
            records = seal_all(cipher, secret, blocks_max, lengths)
            words = [f"{length}:{record.hex()}" for length, record in zip(lengths, records)]
            yield f"{cipher} {secret.hex()} {blocks_max} {' '.join(words)}\n"


# ---- what others have published ----


def check_model():
    unhex = bytes.fromhex
    sealed, tag = aes_128_gcm(
        unhex("feffe9928665731c6d6a8f9467308308"),
        unhex("cafebabefacedbaddecaf888"),
        unhex("feedfacedeadbeeffeedfacedeadbeefabaddad2"),
        unhex("d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525"
              "b16aedf5aa0de657ba637b39"),
    )  # The Galois/Counter Mode of Operation, test case 4
    if sealed[:8] != unhex("42831ec221777424") or tag != unhex("5bc94fbc3221a5db94fae95ae7121a47"):
        sys.exit("the model of AES-128-GCM is wrong")
    words = b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen"
    sealed, tag = chacha20_poly1305(
        bytes(range(0x80, 0xA0)),
        unhex("070000004041424344454647"),
        unhex("50515253c0c1c2c3c4c5c6c7"),
        words + b" would be it.",
    )  # RFC 8439, 2.8.2
    if sealed[:8] != unhex("d31a8d34648e60db") or tag != unhex("1ae10b594f09e26a7e902ecbd0600691"):
        sys.exit("the model of ChaCha20-Poly1305 is wrong")
    key = unhex("077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5")  # RFC 5869, A.1
    expected = unhex("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf")
    if expand(key, unhex("f0f1f2f3f4f5f6f7f8f9")) != expected:
        sys.exit("the model of HKDF is wrong")


def main():
    check_model()
    if sys.argv[1:2] != ["--check"]:
        sys.stdout.writelines(answers())
    elif pathlib.Path(sys.argv[2]).read_text(encoding="ascii") != "".join(answers()):
        sys.exit(f"{sys.argv[2]} is not what the model says")


if __name__ == "__main__":
    main()
