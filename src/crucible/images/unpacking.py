"""Takes the kernel out of the file that distributions ship, which unpacks itself when it starts.

A processor that is emulated needs a third of a second for that, at every boot. QEMU can enter a kernel that is unpacked
already where it says how (by the note for PVH); one that does not say it, or is packed in a way unknown here, stays as
it is.
"""

from __future__ import annotations

import ctypes
import lzma
import struct
import zlib
from collections.abc import Callable, Iterator

# Ten times what such a kernel has today.
LARGEST = 512 << 20

_SECTOR = 512
_BOOT_FLAG = (0x1FE, b"\x55\xaa")
_HEADER = (0x202, b"HdrS")
_OLDEST_PROTOCOL = 0x0208
_LZ4_LEGACY = b"\x02\x21\x4c\x18"
_LZ4_BLOCK = 8 << 20
_ELF_64 = b"\x7fELF\x02\x01"
_NOTES = 4
_PVH_ENTRY = (b"Xen\0", 18)


def unpacked(image: bytes) -> bytes | None:
    """The kernel in a bzImage as QEMU can enter it; None where there is none."""
    try:
        payload = _payload(image)
        size = int.from_bytes(payload[-4:], "little")
        if not 0 < size <= LARGEST:
            return None
        for magic, unpack in _PACKINGS.items():
            if payload.startswith(magic):
                kernel = unpack(payload, size)
                return kernel if len(kernel) == size and _says_how_to_enter(kernel) else None
    except (struct.error, zlib.error, lzma.LZMAError, OSError, ValueError):
        return None
    return None


def _payload(image: bytes) -> bytes:
    """What is packed in it: its last four bytes are the size of what it holds."""
    for offset, mark in (_BOOT_FLAG, _HEADER):
        if image[offset : offset + len(mark)] != mark:
            raise ValueError("no bzImage")
    (protocol,) = struct.unpack_from("<H", image, 0x206)
    if protocol < _OLDEST_PROTOCOL:
        raise ValueError("older than what tells where its payload is")
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = ((image[0x1F1] or 4) + 1) * _SECTOR + offset
    if length < 8 or start + length > len(image):
        raise ValueError("cut short")
    return image[start : start + length]


def _gzip(payload: bytes, size: int) -> bytes:
    stream = zlib.decompressobj(zlib.MAX_WBITS | 16)
    return _whole(stream.decompress(payload, size + 1), stream.eof)


def _xz(payload: bytes, size: int) -> bytes:
    stream = lzma.LZMADecompressor(lzma.FORMAT_XZ)
    return _whole(stream.decompress(payload, size + 1), stream.eof)


def _whole(data: bytes, is_over: bool) -> bytes:
    if not is_over:
        raise ValueError("more than it says, or cut short")
    return data


def _lz4(payload: bytes, size: int) -> bytes:
    """Blocks with their length before each, as the kernel's own build writes them. apt brings the library."""
    library = ctypes.CDLL("liblz4.so.1")
    room = ctypes.create_string_buffer(_LZ4_BLOCK)
    whole = bytearray()
    position, end = len(_LZ4_LEGACY), len(payload) - 4
    while position < end and len(whole) < size:
        (length,) = struct.unpack_from("<I", payload, position)
        block = payload[position + 4 : min(position + 4 + length, end)]
        count = library.LZ4_decompress_safe(block, room, len(block), _LZ4_BLOCK)
        if count <= 0:
            raise ValueError("not what LZ4 makes")
        whole += memoryview(room)[:count]
        position += 4 + length
    return bytes(whole)


def _zstd(payload: bytes, size: int) -> bytes:
    from crucible.images.zstandard import decompressed

    return decompressed(payload[:-4], size)


_PACKINGS: dict[bytes, Callable[[bytes, int], bytes]] = {
    b"\x1f\x8b": _gzip,
    b"\xfd7zXZ\0": _xz,
    _LZ4_LEGACY: _lz4,
    b"\x28\xb5\x2f\xfd": _zstd,
}


def _says_how_to_enter(kernel: bytes) -> bool:
    if not kernel.startswith(_ELF_64):
        return False
    (headers,) = struct.unpack_from("<Q", kernel, 0x20)
    size, count = struct.unpack_from("<HH", kernel, 0x36)
    for number in range(count):
        (kind,) = struct.unpack_from("<I", kernel, headers + number * size)
        if kind == _NOTES:
            offset, length = struct.unpack_from("<Q16xQ", kernel, headers + number * size + 8)
            if _PVH_ENTRY in _notes(kernel[offset : offset + length]):
                return True
    return False


def _notes(segment: bytes) -> Iterator[tuple[bytes, int]]:
    position = 0
    while position + 12 <= len(segment):
        name, value, kind = struct.unpack_from("<III", segment, position)
        yield segment[position + 12 : position + 12 + name], kind
        position += 12 + _padded(name) + _padded(value)


def _padded(length: int) -> int:
    return -(-length // 4) * 4
