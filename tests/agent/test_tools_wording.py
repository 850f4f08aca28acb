"""Bytes of a sandbox as the model reads them, and the memory that they take here."""

from __future__ import annotations

import os
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crucible.agent.tools import media
from crucible.agent.tools.transcript import Transcript
from crucible.agent.tools.wording import clean, clean_text, cut, quoted, shown, size_words


@given(st.binary())
def test_nothing_that_a_terminal_obeys_is_left(data: bytes) -> None:
    text = clean(data)
    assert all(char in "\t\n" or ord(char) >= 32 for char in text)
    assert not set(text) & set("\x1b\x7f\u202e\u2066\x9b")
    text.encode()


@given(st.text(alphabet=st.characters(exclude_categories=["C"])))
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert clean(text.encode()) == text == clean_text(text)


@pytest.mark.parametrize(
    "data, text",
    [
        (b"\x1b[1;31mred\x1b[0m", "red"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"\x1b]0;title\x07x", "x"),
        (b"10%\r50%\r100%\n", "100%\n"),
        (b"a\r\nb", "a\nb"),
        (b"caf\xc3\xa9 \xff\xfe", "café \\xff\\xfe"),
        (b"\x1b]never ends" * 3, "never ends" * 3),
        ("\u202eevil".encode(), "evil"),
    ],
)
def test_what_programs_write_for_terminals(data: bytes, text: str) -> None:
    assert clean(data) == text


@given(st.text(alphabet=st.characters(exclude_characters="\0", max_codepoint=0x2FFF), min_size=1))
def test_a_quoted_name_is_one_line_that_a_shell_reads_as_the_name(name: str) -> None:
    told = quoted(name)
    assert told.isprintable()
    if name.isascii() and not set(name) & set("*?[]{}()!~&;|<>$`#^"):
        out = subprocess.run(
            ["bash", "-c", f"printf %s {told}"], capture_output=True, check=True
        ).stdout
        assert out == name.encode()


def test_names_that_are_no_text_are_quoted_as_their_bytes() -> None:
    assert quoted(os.fsdecode(b"a\xff\n\x1b[0m")) == r"$'a\xff\n\x1b[0m'"
    assert quoted("a b") == "'a b'"
    assert quoted("it's") == r"$'it\'s'"
    assert quoted("plain/é.py") == "plain/é.py"


@given(st.text(max_size=300), st.integers(min_value=10, max_value=200))
def test_what_is_cut_keeps_its_beginning_and_its_end(text: str, most: int) -> None:
    told = cut(text, most)
    if len(text) <= most:
        assert told == text
    else:
        head, tail = told.split("\n[… ")[0], told.split(" …]\n")[-1]
        assert text.startswith(head)
        assert text.endswith(tail)
        assert f"{len(text) - len(head) - len(tail)} of {len(text)} characters left out" in told


def test_long_output_is_shown_by_both_ends_and_says_how_much_is_missing() -> None:
    data = b"".join(b"line %d\n" % number for number in range(100_000))
    told = shown(data, len(data), where="; there", most=1000)
    assert told.startswith("line 0\n")
    assert told.endswith("line 99999\n")
    assert "KB of" in told or "MB of" in told
    assert "left out; there" in told
    assert len(told) < 1200
    assert len(shown(b"\xff" * 10_000, 10_000, most=1000)) < 2500


@given(st.lists(st.binary(max_size=50)), st.integers(0, 40), st.integers(0, 40))
def test_a_transcript_keeps_both_ends_and_counts_the_rest(
    pieces: list[bytes], head: int, tail: int
) -> None:
    heard: list[bytes] = []
    transcript = Transcript(lambda _, data: heard.append(data), head=head, tail=tail)
    for piece in pieces:
        transcript.hear("stdout", piece)
    whole = b"".join(pieces)
    assert heard == pieces
    assert transcript.total == len(whole)
    assert transcript.dropped == max(0, len(whole) - head - tail)
    kept = transcript.kept()
    if not transcript.dropped:
        assert kept == whole
    else:
        assert kept.startswith(whole[:head])
        assert kept.endswith(whole[len(whole) - tail :])
        assert b"%d bytes were not kept" % transcript.dropped in kept


def test_a_transcript_never_holds_more_than_it_keeps() -> None:
    transcript = Transcript(head=1000, tail=1000)
    for _ in range(10_000):
        transcript.hear("stdout", b"x" * 1000)
    assert transcript.total == 10_000_000
    assert len(transcript.kept()) < 2100
    assert len(transcript._tail) <= 3000


def test_sizes_in_words() -> None:
    assert [size_words(n) for n in (0, 1, 1023, 1024, 1 << 20, 5 << 30)] == [
        "0 bytes", "1 byte", "1023 bytes", "1.0 KB", "1.0 MB", "5.0 GB",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "path, head, kind",
    [
        ("x.txt", b"\x89PNG\r\n\x1a\n\0", "image/png"),
        ("x.png", b"hello", "text/plain"),
        ("x.html", b"<p>", "text/html"),
        ("x.csv", b"a,b\n", "text/csv"),
        ("x.json", b"{}", "application/json"),
        ("x.svg", b"<svg/>", "image/svg+xml"),
        ("x.svg", b"\0\1", "application/octet-stream"),
        ("x.docx", b"PK\x03\x04\0",
         "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        ("x.html", b"PK\x03\x04\0", "application/zip"),
        ("x", b"\0\1\2", "application/octet-stream"),
        ("x", b"", "text/plain"),
        ("x.pdf", b"%PDF-1.7", "application/pdf"),
        ("BM", b"BMW is a car", "text/plain"),
    ],
)  # fmt: skip
def test_a_file_is_what_its_bytes_say(path: str, head: bytes, kind: str) -> None:
    assert media.media_type(path, head) == kind
