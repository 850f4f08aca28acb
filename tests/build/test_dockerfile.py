"""The Dockerfile's reader: what is of the subset, what is refused and how, and that nothing makes it stumble."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crucible.build.dockerfile import MAX_BYTES, MAX_INSTRUCTIONS, WORDS, parse_dockerfile
from crucible.build.instructions import (
    Arg,
    Cmd,
    Copy,
    Entrypoint,
    Env,
    Expose,
    From,
    Instruction,
    Label,
    Run,
    User,
    Workdir,
)
from crucible.errors import BuildFileInvalid

SH = ("/bin/sh", "-c")


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("RUN echo  hi ", Run(line=2, argv=(*SH, "echo  hi"), text="echo  hi")),
        ("run echo $X", Run(line=2, argv=(*SH, "echo $X"), text="echo $X")),
        ('RUN ["a", "b c"]', Run(line=2, argv=("a", "b c"), text='["a", "b c"]')),
        ("RUN [ -f x ] && y", Run(line=2, argv=(*SH, "[ -f x ] && y"), text="[ -f x ] && y")),
        ("RUN a \\\n  b", Run(line=2, argv=(*SH, "a   b"), text="a   b")),
        ("RUN a \\  \n# no\n\n b", Run(line=2, argv=(*SH, "a  b"), text="a  b")),
        ("RUN cat <<<x", Run(line=2, argv=(*SH, "cat <<<x"), text="cat <<<x")),
        ("COPY a b /c/", Copy(line=2, word="COPY", sources=("a", "b"), target="/c/")),
        ('COPY ["a b", "/c"]', Copy(line=2, word="COPY", sources=("a\\ b",), target="/c")),
        (
            "ADD --chown=1:2 --chmod=0640 a .",
            Copy(line=2, word="ADD", sources=("a",), target=".", chown="1:2", chmod="0640"),
        ),
        (
            "COPY --from=one /a /b",
            Copy(line=2, word="COPY", sources=("/a",), target="/b", stage="one"),
        ),
        ("ENV A=1 B='x y'", Env(line=2, pairs=(("A", "1"), ("B", "'x y'")))),
        ("ENV A x y", Env(line=2, pairs=(("A", "x y"),))),
        ("LABEL a.b=c", Label(line=2, pairs=(("a.b", "c"),))),
        ("ARG X", Arg(line=2, name="X")),
        ("ARG X=", Arg(line=2, name="X", default="")),
        ("WORKDIR /a b", Workdir(line=2, path="/a b")),
        ("USER a:b", User(line=2, user="a:b")),
        ('ENTRYPOINT ["x"]', Entrypoint(line=2, argv=("x",))),
        ("ENTRYPOINT []", Entrypoint(line=2, argv=())),
        ("CMD x y", Cmd(line=2, argv=(*SH, "x y"))),
        ("EXPOSE 80 53/udp", Expose(line=2, ports=("80", "53/udp"))),
        ("FROM x AS Two", From(line=2, image="x", name="two")),
    ],
)
def test_an_instruction_is_read_as_it_is_meant(text: str, wanted: Instruction) -> None:
    found = parse_dockerfile(f"FROM base\n{text}\n".encode())
    assert found.instructions == (From(line=1, image="base"), wanted)


@pytest.mark.parametrize(
    "text, why",
    [
        ("VOLUME /x", "VOLUME is not supported"),
        ("HEALTHCHECK NONE", "HEALTHCHECK is not supported"),
        ("ONBUILD RUN x", "ONBUILD is not supported"),
        ("SHELL ['x']", "SHELL is not supported"),
        ("STOPSIGNAL 9", "STOPSIGNAL is not supported"),
        ("MAINTAINER me", "MAINTAINER is not supported"),
        ("RUNN x", "'RUNN' is no instruction"),
        ("RUN", "RUN has nothing behind it"),
        ("RUN --mount=type=cache x", "RUN with --mount is not supported"),
        ("RUN --network=host x", "RUN with --network is not supported"),
        ("RUN <<EOF", "RUN with a here-document is not supported"),
        ("RUN cat <<-'EOF' > x", "RUN with a here-document is not supported"),
        ("COPY <<EOF /x", "COPY with a here-document is not supported"),
        ("COPY --link a b", "COPY with --link is not supported"),
        ("COPY --chmod=u+x a b", "--chmod takes a mode in octal digits"),
        ("COPY --chown= a b", "--chown is given twice or without a value"),
        ("COPY a", "COPY needs what to copy and where to"),
        ("ADD --from=x a b", "ADD with --from is not supported"),
        ("ADD https://example.org/x /x", "ADD of 'https://example.org/x' is not supported"),
        ("ADD git@example.org:x.git /x", "is not supported"),
        ("FROM --platform=linux/arm64 x", "FROM with --platform is not supported"),
        ("FROM a b c", "FROM is followed by an image"),
        ("FROM a AS 9", "'9' is no name for a stage"),
        ("ENV A", "ENV needs NAME=VALUE"),
        ("ENV A=1 B", "'B' is not NAME=VALUE"),
        ("ENV 1=2", "'1' is no name of a variable"),
        ("ENV A='x", "a quote ' is not closed"),
        ("ARG 1", "'1' is no name of a variable"),
        ("USER a b", "USER takes one word"),
    ],
)
def test_what_is_not_of_the_subset_is_refused_by_name_and_line(text: str, why: str) -> None:
    with pytest.raises(BuildFileInvalid) as refusal:
        parse_dockerfile(f"FROM base\n\n{text}\n".encode(), origin="app.Dockerfile")
    assert refusal.value.message.startswith("In line 3 of app.Dockerfile: ")
    assert why in refusal.value.message


def test_a_misspelt_instruction_gets_a_suggestion() -> None:
    with pytest.raises(BuildFileInvalid) as refusal:
        parse_dockerfile(b"FROM base\nENTRYPONT x\n")
    assert refusal.value.hint == "Did you mean `ENTRYPOINT`?"


def test_only_arg_may_come_before_the_first_from() -> None:
    found = parse_dockerfile(b"ARG V=1\nFROM base:$V\n")
    assert found.instructions == (
        Arg(line=1, name="V", default="1"),
        From(line=2, image="base:$V"),
    )
    with pytest.raises(BuildFileInvalid, match="first instruction has to be FROM"):
        parse_dockerfile(b"RUN x\nFROM base\n")
    with pytest.raises(BuildFileInvalid, match="it has no FROM"):
        parse_dockerfile(b"# nothing\n")


def test_the_escape_directive_changes_how_lines_go_on() -> None:
    found = parse_dockerfile(b"# escape=`\nFROM base\nRUN a `\n b\\\n")
    assert found.escape == "`"
    assert found.instructions[1] == Run(line=3, argv=(*SH, "a  b\\"), text="a  b\\")
    with pytest.raises(BuildFileInvalid, match="`escape` can be"):
        parse_dockerfile(b"# escape=x\nFROM base\n")


def test_a_directive_after_the_first_lines_is_a_comment() -> None:
    found = parse_dockerfile(b"# syntax=docker/dockerfile:1\n# plain\n# escape=`\nFROM base\n")
    assert found.escape == "\\"


@pytest.mark.parametrize(
    "data, why",
    [
        (b"FROM a\n" + b"#" * MAX_BYTES, "more than"),
        (b"FROM \xff", "it is not UTF-8"),
        (b"FROM a\nRUN \0", "line 2 of Dockerfile: it holds a NUL"),
        (b"FROM a\n" * (MAX_INSTRUCTIONS + 1), "instructions"),
    ],
)
def test_files_that_cannot_be_are_refused(data: bytes, why: str) -> None:
    with pytest.raises(BuildFileInvalid, match=why):
        parse_dockerfile(data)


_LINES = st.lists(
    st.one_of(
        st.text(max_size=40),
        st.builds("{} {}".format, st.sampled_from(WORDS), st.text(max_size=60)),
        st.sampled_from(["FROM base", "\\", "# escape=`", 'RUN ["a"]', "COPY a \\", "ENV A='"]),
    ),
    max_size=12,
)


@given(_LINES)
def test_any_text_is_read_or_refused(lines: list[str]) -> None:
    data = "\n".join(lines).encode("utf-8", "surrogatepass")
    try:
        found = parse_dockerfile(data)
    except BuildFileInvalid:
        return
    numbers = [each.line for each in found.instructions]
    assert numbers == sorted(numbers)
    assert all(1 <= number <= data.count(b"\n") + 1 for number in numbers)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        parse_dockerfile(b"FROM base\n" + data)
    except BuildFileInvalid:
        return
