"""An export stands alone: with the public key, anything that was changed in it is found, by others' programs too."""

from __future__ import annotations

import base64
import contextlib
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from securesystemslib.dsse import Envelope as OthersEnvelope
from securesystemslib.exceptions import UnverifiedSignatureError, VerificationError
from securesystemslib.signer._key import SSlibKey
from tests.conftest import Run
from tests.ledger.records import RUN, problems, recorded, step

from crucible.errors import LedgerBroken, ManifestUnreadable, PathRefused
from crucible.ledger import manifests
from crucible.ledger.canonical import canonical
from crucible.ledger.chain import hash_entry
from crucible.ledger.envelope import Envelope, pre_authentication
from crucible.ledger.exporting import write_manifest
from crucible.ledger.keys import SigningKey, own_key, read_public_key
from crucible.ledger.ledger import Ledger
from crucible.ledger.manifests import PAYLOAD_TYPE, verify_file
from crucible.store.database import Database


class Exported:
    """One run, and its exports: with contents, one of them erased, and without."""

    def __init__(self, directory: Path, ledger: Ledger) -> None:
        self.directory, self.ledger, self.key = directory, ledger, ledger.key.public
        self.manifest = directory / "run.json"
        self.archive = directory / "run.zip"
        write_manifest(self.manifest, ledger.export_now(RUN))
        ledger.export_archive_now(RUN, self.archive)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory, run: Run) -> Iterator[Exported]:
    home = tmp_path_factory.mktemp("home")
    database = Database(f"sqlite:///{home / 'crucible.db'}")
    ledger = Ledger(home, database)
    written = run(recorded(ledger))
    run(ledger.erase(RUN, [str(written[0].input)]))
    yield Exported(home, ledger)
    ledger.close()
    database.close()


def test_a_manifest_is_whole_without_contents(exported: Exported) -> None:
    found = verify_file(exported.manifest, exported.key)
    assert (found.is_whole, found.run, found.count, found.absent) == (True, RUN, 5, 7)


def test_an_archive_has_the_contents_that_were_not_erased(exported: Exported) -> None:
    found = verify_file(exported.archive, exported.key)
    assert (found.is_whole, found.count, found.kept, found.erased) == (True, 5, 6, 1)
    with zipfile.ZipFile(exported.archive) as archive:
        assert len(archive.namelist()) == 7
    assert exported.archive.stat().st_mode & 0o077 == 0


async def test_an_export_is_the_same_from_either_database(ledger: Ledger, run: Run) -> None:
    await recorded(ledger)
    envelope = json.loads(await ledger.export(RUN))
    payload = json.loads(base64.b64decode(envelope["payload"]))
    assert [entry["number"] for entry in payload["entries"]] == [1, 2, 3, 4]
    assert (await ledger.verify(RUN)).is_whole


def test_it_needs_the_public_key_and_nothing_else(exported: Exported, tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text(exported.key.pem())
    (tmp_path / "elsewhere.json").write_bytes(exported.manifest.read_bytes())
    key = read_public_key(tmp_path / "key.pem")
    assert verify_file(tmp_path / "elsewhere.json", key).is_whole


def test_it_is_refused_under_another_key(exported: Exported, tmp_path: Path) -> None:
    other = own_key(tmp_path).public
    for path in (exported.manifest, exported.archive):
        assert problems(verify_file(path, other)) == [("foreign-key", None)]


def test_another_implementation_of_dsse_agrees(exported: Exported, tmp_path: Path) -> None:
    fields = json.loads(exported.manifest.read_bytes())
    theirs = OthersEnvelope.from_dict(json.loads(json.dumps(fields)))
    assert theirs.pae() == pre_authentication(PAYLOAD_TYPE, base64.b64decode(fields["payload"]))
    assert theirs.verify([_theirs(exported.key.pem(), exported.key.id)], 1)
    fields["payload"] = base64.b64encode(theirs.payload + b" ").decode()
    with pytest.raises((VerificationError, UnverifiedSignatureError)):
        OthersEnvelope.from_dict(fields).verify([_theirs(exported.key.pem(), exported.key.id)], 1)


def _theirs(pem: str, key: str) -> SSlibKey:
    return SSlibKey(key, "ed25519", "ed25519", {"public": _raw(pem).hex()})


def _raw(pem: str) -> bytes:
    """The last 32 bytes of what PEM holds of such a key."""
    return base64.b64decode("".join(pem.splitlines()[1:-1]))[-32:]


def _payload(exported: Exported) -> dict[str, Any]:
    envelope = json.loads(exported.manifest.read_bytes())
    payload: dict[str, Any] = json.loads(base64.b64decode(envelope["payload"]))
    return payload


def _write(path: Path, payload: object, key: SigningKey, key_id: str = "") -> Path:
    data = canonical(payload)
    envelope = Envelope(
        payload=data,
        payload_type=PAYLOAD_TYPE,
        key=key_id or key.public.id,
        signature=key.sign(pre_authentication(PAYLOAD_TYPE, data)),
    )
    path.write_bytes(envelope.encode())
    return path


def test_a_changed_entry_is_named(exported: Exported, tmp_path: Path) -> None:
    payload = _payload(exported)
    payload["entries"][2]["exit_status"] = 0
    path = _write(tmp_path / "a.json", payload, own_key(tmp_path), exported.key.id)
    assert problems(verify_file(path, exported.key)) == [
        ("entry-changed", 3),
        ("manifest-changed", None),
    ]


def test_a_changed_entry_that_was_hashed_anew_is_named(exported: Exported, tmp_path: Path) -> None:
    payload = _payload(exported)
    last = payload["entries"][1]["hash"]
    for entry in payload["entries"][2:]:
        entry["tokens_in"], entry["previous"] = 0, last
        fields = {key: value for key, value in entry.items() if key not in ("hash", "signature")}
        last = entry["hash"] = hash_entry(fields)
    payload["hash"] = last
    path = _write(tmp_path / "a.json", payload, own_key(tmp_path), exported.key.id)
    assert problems(verify_file(path, exported.key))[0] == ("entry-unsigned", 3)


@pytest.mark.parametrize(
    "change, expected",
    [
        (lambda entries: entries.pop(), ("truncated", 5)),
        (lambda entries: entries.pop(1), ("entry-missing", 2)),
        (lambda entries: entries.insert(1, entries.pop(2)), ("entry-missing", 2)),
        (lambda entries: entries.append(dict(entries[1])), ("entry-changed", 6)),
        (lambda entries: entries.clear(), ("truncated", 1)),
    ],
)
def test_missing_and_reordered_entries_are_named(
    exported: Exported, tmp_path: Path, change: Any, expected: tuple[str, int]
) -> None:
    payload = _payload(exported)
    change(payload["entries"])
    path = _write(tmp_path / "a.json", payload, own_key(tmp_path), exported.key.id)
    found = problems(verify_file(path, exported.key))
    assert found[0] == expected
    assert ("manifest-changed", None) in found


@settings(max_examples=80)
@given(st.data())
def test_any_changed_byte_of_a_manifest_is_found(exported: Exported, data: st.DataObject) -> None:
    before = exported.manifest.read_bytes().rstrip(b"\n")
    place = data.draw(st.integers(0, len(before) - 1))
    flipped = bytearray(before)
    flipped[place] ^= data.draw(st.integers(1, 255))
    changed = data.draw(st.sampled_from([bytes(flipped), before[:place], before + b" "]))
    path = exported.directory / "changed.json"
    path.write_bytes(changed)
    with contextlib.suppress(ManifestUnreadable):
        assert not verify_file(path, exported.key).is_whole


@settings(max_examples=60)
@given(st.data())
def test_any_changed_member_of_an_archive_is_found(exported: Exported, data: st.DataObject) -> None:
    with zipfile.ZipFile(exported.archive) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    names = sorted(name for name in members if name != "manifest.json")
    name, other = data.draw(st.sampled_from(names)), data.draw(st.sampled_from(names))
    match data.draw(st.sampled_from(["flip", "drop", "exchange", "add", "cut"])):
        case "flip":
            flipped = bytearray(members[name])
            flipped[data.draw(st.integers(0, len(flipped) - 1))] ^= 1
            members[name] = bytes(flipped)
        case "drop":
            del members[name]
        case "exchange":
            if name == other:
                return
            members[name], members[other] = members[other], members[name]
        case "add":
            members[data.draw(st.sampled_from(["x", "contents/x", "contents/" + "0" * 64]))] = b""
        case _:
            members[name] = members[name][: data.draw(st.integers(0, len(members[name]) - 1))]
    path = exported.directory / "changed.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in members.items():
            archive.writestr(member, content)
    assert not verify_file(path, exported.key).is_whole


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_member_that_is_there_twice_is_found(exported: Exported, tmp_path: Path) -> None:
    path = tmp_path / "twice.zip"
    path.write_bytes(exported.archive.read_bytes())
    with zipfile.ZipFile(path, "a") as archive:
        name = next(name for name in archive.namelist() if name.startswith("contents/"))
        archive.writestr(name, archive.read(name))
    assert problems(verify_file(path, exported.key)) == [("manifest-changed", None)]


@settings(max_examples=60)
@given(st.integers(0, 1 << 20), st.integers(1, 255))
def test_a_damaged_archive_is_told_or_whole(exported: Exported, place: int, change: int) -> None:
    """Not every byte of a zip file means something; none of them makes anything but these two of it."""
    data = bytearray(exported.archive.read_bytes())
    data[place % len(data)] ^= change
    path = exported.directory / "damaged.zip"
    path.write_bytes(data)
    with contextlib.suppress(ManifestUnreadable):
        verify_file(path, exported.key)


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"PK\x03\x04", b"PK\x03\x04" + b"\0" * 100, b"[" * 100_000, b"\xff" * 50, b"null",
     b'{"payload":"","payloadType":"","signatures":[]}'],
)  # fmt: skip
def test_what_is_no_export_is_said(exported: Exported, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(ManifestUnreadable, match="file"):
        verify_file(path, exported.key)


def test_what_is_signed_and_says_something_else_is_refused(
    exported: Exported, tmp_path: Path
) -> None:
    """A key of ours may have signed other things."""
    whole = _payload(exported)
    key = exported.ledger.key
    shapes: list[object] = [1, [], {}, {**whole, "more": 1}, {**whole, "entries": [1]},
                            {**whole, "opening": {}}, {**whole, "v": 2}]  # fmt: skip
    for shape in shapes:
        with pytest.raises(ManifestUnreadable):
            verify_file(_write(tmp_path / "a.json", shape, key), exported.key)


def test_a_file_that_is_too_large_is_not_read(
    exported: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifests, "MAX_MANIFEST", 1000)
    for path in (exported.manifest, exported.archive):
        with pytest.raises(ManifestUnreadable, match="larger"):
            verify_file(path, exported.key)


def test_a_content_that_unpacks_to_too_much_is_not_read_whole(
    exported: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(exported.archive) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    bomb = next(name for name in members if name.startswith("contents/"))
    members[bomb] += b"\0" * (1 << 22)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    monkeypatch.setattr(manifests, "MAX_FILE", 1 << 12)
    assert [problem for problem, _ in problems(verify_file(path, exported.key))] == [
        "content-changed"
    ]


async def test_what_is_broken_is_not_signed_again(ledger: Ledger, run: Run, tmp_path: Path) -> None:
    written = await recorded(ledger)
    ledger.contents.remove(RUN, str(written[0].output))
    with pytest.raises(LedgerBroken, match="entry 1"):
        ledger.export_archive_now(RUN, tmp_path / "run.zip")
    assert not (tmp_path / "run.zip").exists()
    # What was recorded is still true, though a content is lost.
    assert ledger.export_now(RUN)
    await ledger.append(RUN, step())
    ledger.settle()
    (tmp_path / "home" / "ledger" / "heads" / f"{RUN}.json").unlink()
    with pytest.raises(LedgerBroken, match="head"):
        ledger.export_now(RUN)


def test_a_place_that_cannot_be_written_is_said(exported: Exported, tmp_path: Path) -> None:
    with pytest.raises(PathRefused, match="nowhere"):
        exported.ledger.export_archive_now(RUN, tmp_path / "nowhere" / "run.zip")
    assert list(tmp_path.iterdir()) == []
