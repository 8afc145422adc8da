#!/usr/bin/env python3
"""Copies a core dump of a GPU without what tests don't need: registers, parameters, empty tables, the driver's own images, and PTX. Folders
in the lines are replaced, so that a dump doesn't say where it was made.

    strip.py FROM TO KERNEL..

Keeps the images that have one of the kernels.
"""
import struct
import sys

HEADER, SECTION = "<16sHHIQQQIHHHHHH", "<IIQQQQIIQQ"
DEVICES, MULTIPROCESSORS, GRIDS, BLOCKS, WARPS, LANES, RETURNS, IMAGE = (0x80000000 + kind for kind in (9, 11, 12, 13, 14, 15, 8, 7))
KEPT_OF_DEBUG = [b".debug_line", b".debug_str", b".rela.debug_line"]


def sections(file):
    header = struct.unpack_from(HEADER, file)
    offset, count, names = header[6], header[12], header[13]
    if count == 0:
        count = struct.unpack_from(SECTION, file, offset)[5]
    if names == 0xFFFF:
        names = struct.unpack_from(SECTION, file, offset)[6]
    table = [struct.unpack_from(SECTION, file, offset + index * 64) for index in range(count)]
    text = table[names]
    return [(file[text[4] + row[0] :].split(b"\0", 1)[0], *row[1:]) for row in table] if count else []


def contents(file, section):
    return file[section[4] : section[4] + section[5]]


def cleaned(image):
    """Returns an image with zeros for PTX and variables, and with other folders."""
    image = bytearray(image)
    for section in sections(image):
        if b"debug" in section[0] and section[0] not in KEPT_OF_DEBUG:
            image[section[4] : section[4] + section[5]] = bytes(section[5])
        if section[0] == b".debug_line":
            lines = contents(image, section)
            at = 0
            while (at := lines.find(b"/", at)) >= 0:
                end = lines.index(b"\0", at)
                path = lines[at:end]
                if all(32 < byte < 127 for byte in path) and len(path) > 8:
                    lines[at:end] = (b"/home/user" + b"/a" * len(path))[: len(path)]
                at = end
            image[section[4] : section[4] + section[5]] = lines
    return bytes(image)


def main():
    source, target, *kernels = sys.argv[1:]
    with open(source, "rb") as opened:
        file = opened.read()
    kept, numbers = [], {}
    for number, section in enumerate(sections(file)):
        kind, size = section[1], section[5]
        data = contents(file, section)
        if kind == IMAGE:
            if not any(kernel.encode() in data for kernel in kernels):
                continue
            data = cleaned(data)
        elif kind not in (DEVICES, MULTIPROCESSORS, GRIDS, BLOCKS, WARPS, LANES, RETURNS, 3) or size == 0:
            continue
        elif section[0] == b".shstrtab":
            continue
        numbers[number] = len(kept) + 1
        kept.append((section, data))
    names, offset, body, headers = b"\0.shstrtab\0", 64, b"", [struct.pack(SECTION, *[0] * 10)]
    for (name, kind, flags, address, _, _, link, info, align, row), data in kept:
        headers.append(struct.pack(SECTION, 0, kind, flags, address, offset + len(body), len(data), numbers.get(link, 0), info, align, row))
        body += data
    headers.append(struct.pack(SECTION, 1, 3, 0, 0, offset + len(body), len(names), 0, 0, 1, 0))
    body += names
    count = len(headers)
    if count >= 0xFF00:
        headers[0] = struct.pack(SECTION, 0, 0, 0, 0, 0, count, count - 1, 0, 0, 0)
    head = list(struct.unpack_from(HEADER, file))
    head[6], head[12], head[13] = 64 + len(body), count if count < 0xFF00 else 0, count - 1 if count < 0xFF00 else 0xFFFF
    with open(target, "wb") as opened:
        opened.write(struct.pack(HEADER, *head) + body + b"".join(headers))


main()
