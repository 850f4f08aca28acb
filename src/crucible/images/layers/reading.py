"""One layer as a stream of its tar: decompressed in a thread beside the reader, both digests compared at the end."""

from __future__ import annotations

import queue
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Protocol

from crucible.errors import ImageBomb, LayerDamaged
from crucible.images.layers.limits import Limits
from crucible.images.oci.digests import hasher
from crucible.images.oci.model import Compression, Layer

_CHUNK = 1 << 18
_QUEUED = 8
_GZIP_WINDOW = 31


class LayerStream:
    """Bytes of the tar in order. `position` counts them."""

    def __init__(self, layer: Layer, pieces: Iterator[bytes]) -> None:
        self.position = 0
        self._layer = layer
        self._pieces = pieces
        self._hash = hasher(layer.diff_id)
        self._piece = memoryview(b"")

    def take(self, count: int) -> bytes:
        """Exactly so many bytes. The caller has bounded the count."""
        if count <= len(self._piece):
            taken = bytes(self._piece[:count])
            self._piece = self._piece[count:]
            self.position += count
            return taken
        return b"".join(self.pieces(count))

    def pieces(self, count: int) -> Iterator[memoryview]:
        """Exactly so many bytes, as they come."""
        while count:
            if not self._piece and not self._advance():
                raise LayerDamaged(self._layer.digest, "its tar ends in the middle of an entry")
            piece = self._piece[:count]
            self._piece = self._piece[len(piece) :]
            self.position += len(piece)
            count -= len(piece)
            yield piece

    def skip(self, count: int) -> None:
        for _ in self.pieces(count):
            pass

    def at_end(self) -> bool:
        return not self._piece and not self._advance()

    def finish(self) -> None:
        """Reads what is left, and compares the digest of the whole with the one the image's configuration gives."""
        self.position += len(self._piece)
        while self._advance():
            self.position += len(self._piece)
        found = f"{self._hash.name}:{self._hash.hexdigest()}"
        if found != self._layer.diff_id:
            raise LayerDamaged(
                self._layer.digest, f"it unpacks to {found}, not to {self._layer.diff_id}"
            )

    def _advance(self) -> bool:
        piece = next(self._pieces, b"")
        self._hash.update(piece)
        self._piece = memoryview(piece)
        return bool(piece)


@contextmanager
def open_layer(layer: Layer, limits: Limits, *, spent_bytes: int = 0) -> Iterator[LayerStream]:
    """`spent_bytes` is what the layers before this one unpacked to."""
    pieces: queue.Queue[bytes | Exception] = queue.Queue(_QUEUED)
    stopped = threading.Event()
    worker = threading.Thread(
        target=_decompress, args=(layer, limits, spent_bytes, pieces, stopped), name="layer"
    )
    worker.start()
    try:
        yield LayerStream(layer, _received(pieces))
    finally:
        stopped.set()
        while worker.is_alive():
            _discard(pieces)
            worker.join(0.01)


def _received(pieces: queue.Queue[bytes | Exception]) -> Iterator[bytes]:
    while piece := pieces.get():
        if isinstance(piece, Exception):
            raise piece
        yield piece


def _discard(pieces: queue.Queue[bytes | Exception]) -> None:
    try:
        while True:
            pieces.get_nowait()
    except queue.Empty:
        return


def _decompress(
    layer: Layer,
    limits: Limits,
    spent_bytes: int,
    pieces: queue.Queue[bytes | Exception],
    stopped: threading.Event,
) -> None:
    """Runs in the thread. The empty piece is the end; an error is handed over like a piece."""
    try:
        allowed = _allowed_bytes(layer, limits, spent_bytes)
        with layer.path.open("rb") as blob:
            for piece in _plain_pieces(layer, blob):
                allowed -= len(piece)
                if allowed < 0:
                    raise ImageBomb(
                        f"Layer {layer.digest} unpacks to more than it may ({layer.size} bytes packed)"
                    )
                if stopped.is_set():
                    return
                pieces.put(piece)
        pieces.put(b"")
    except (zlib.error, EOFError) as error:
        pieces.put(LayerDamaged(layer.digest, f"it cannot be decompressed: {error}"))
    except Exception as error:
        pieces.put(error)


def _allowed_bytes(layer: Layer, limits: Limits, spent_bytes: int) -> int:
    by_ratio = max(limits.free_bytes, layer.size * limits.ratio)
    return min(by_ratio, limits.total_bytes - spent_bytes)


class _Decompressor(Protocol):
    """One member of a compressed stream."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    @property
    def needs_input(self) -> bool: ...

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _Gzip:
    """zlib's decompressor with the manners of the newer ones: it keeps what it was not asked for yet."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(_GZIP_WINDOW)

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    @property
    def needs_input(self) -> bool:
        return not self._inner.unconsumed_tail

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail + data, max_length)


def _new_decompressor(compression: Compression) -> _Decompressor:
    if compression is Compression.GZIP:
        return _Gzip()
    from crucible.images.zstandard import ZstdDecompressor

    decompressor: _Decompressor = ZstdDecompressor()
    return decompressor


def _plain_pieces(layer: Layer, blob: IO[bytes]) -> Iterator[bytes]:
    packed = _verified_pieces(layer, blob)
    if layer.compression is Compression.NONE:
        yield from packed
        return
    decompressor = _new_decompressor(layer.compression)
    is_begun = False
    for data in packed:
        while True:
            if decompressor.eof:
                # Another member may follow: some packers write one for every file.
                data = decompressor.unused_data + data
                if not data:
                    break
                decompressor, is_begun = _new_decompressor(layer.compression), False
            is_begun = is_begun or bool(data)
            piece = _tried(layer, decompressor, data)
            data = b""
            if piece:
                yield piece
            if not decompressor.eof and decompressor.needs_input and len(piece) < _CHUNK:
                break
    while is_begun and not decompressor.eof:
        piece = _tried(layer, decompressor, b"")
        if not piece:
            raise LayerDamaged(layer.digest, "its compressed data ends too early")
        yield piece


def _tried(layer: Layer, decompressor: _Decompressor, data: bytes) -> bytes:
    try:
        return decompressor.decompress(data, _CHUNK)
    except zlib.error:
        raise
    except Exception as error:  # zstd's own error class is not known before it is loaded
        raise LayerDamaged(layer.digest, f"it cannot be decompressed: {error}") from None


def _verified_pieces(layer: Layer, blob: IO[bytes]) -> Iterator[bytes]:
    """The blob's own bytes; not one more than it should have, and with the digest that it was asked for by."""
    digest = hasher(layer.digest)
    left = layer.size
    while data := blob.read(_CHUNK):
        left -= len(data)
        if left < 0:
            break
        digest.update(data)
        yield data
    if left != 0:
        raise LayerDamaged(layer.digest, f"it does not have the {layer.size} bytes it should have")
    found = f"{digest.name}:{digest.hexdigest()}"
    if found != layer.digest:
        raise LayerDamaged(layer.digest, f"its content has the digest {found}")
