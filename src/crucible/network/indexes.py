"""From package indexes to rules: an index is asked once where its downloads lie, and the answer is kept for a day."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from crucible.errors import BadSetting
from crucible.network.addresses import parse_address
from crucible.network.policy import Policy
from crucible.network.registries import Host, Source, built_in, configured
from crucible.network.rules import Rule, parse_rule

KEPT_S: Final = 24 * 3600.0
KEPT_AFTER_FAILURE_S: Final = 300.0
ASK_S: Final = 10.0
MAX_ANSWER: Final = 1 << 22
MAX_RULES: Final = 200

_LINK: Final = re.compile(r"""href\s*=\s*["']([^"'\s>]+)""", re.IGNORECASE)
# A package that about every index has, so that its page shows where files lie.
_PIP_PROBES: Final = ("pip", "setuptools")
_NPM_PROBE: Final = "semver"


def with_registries(policy: Policy, host: Host, cache: Path | None = None) -> Policy:
    """The policy, with `@registries` filled in if it uses that. Blocks, for seconds the first time."""
    if not policy.needs_registries:
        return policy
    return replace(policy, registries=find(host, cache))


def find(host: Host, cache: Path | None = None) -> tuple[Rule, ...]:
    """`cache` is a file of ours. It is not believed when a setting of a client has changed since."""
    sources = configured(host)
    mark = _mark(host)
    if cache is not None and (kept := _kept(cache, mark)) is not None:
        return kept
    sources += built_in(host, sources)
    texts: dict[str, None] = {}
    is_complete = True
    for source in dict.fromkeys(sources):
        texts |= dict.fromkeys(_rules(source.url, is_ours=True))
        links = _links(source)
        is_complete = is_complete and links is not None
        for link in links or ():
            texts |= dict.fromkeys(_rules(link, is_ours=_are_siblings(link, source.url)))
    rules = tuple(parse_rule(text) for text in list(texts)[:MAX_RULES])
    if cache is not None:
        _keep(cache, mark, rules, KEPT_S if is_complete else KEPT_AFTER_FAILURE_S)
    return rules


def _rules(url: str, *, is_ours: bool) -> Iterator[str]:
    """An index that this host was told to use may be a neighbour; what it links to, only if the two belong together."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    if (address := parse_address(host)) is not None:
        host = f"[{address}]" if address.version == 6 else str(address)
    try:
        yield parse_rule(f"{host}:{port}" + ("+private" if is_ours else "")).text
    except BadSetting:
        return


def _are_siblings(one: str, other: str) -> bool:
    hosts = [(urlsplit(url).hostname or "").lower() for url in (one, other)]
    if hosts[0] == hosts[1]:
        return True
    parents = [host.partition(".")[2] for host in hosts]
    return parents[0] == parents[1] and "." in parents[0]


def _links(source: Source) -> set[str] | None:
    """Where an index says its files are; None if it did not answer."""
    match source.client:
        case "pip":
            return _pip_links(source.url)
        case "npm":
            return _npm_links(source.url)
        case "cargo":
            return _cargo_links(source.url)
        case "apt" | "go":
            return set()


def _pip_links(index: str) -> set[str] | None:
    for project in _PIP_PROBES:
        page = urljoin(index.rstrip("/") + "/", f"{project}/")
        text = _fetch(page, "application/vnd.pypi.simple.v1+html, text/html;q=0.9")
        if text is not None:
            links = {urljoin(page, link) for link in _LINK.findall(text)}
            return {_origin(link) for link in links if link.startswith(("http://", "https://"))}
    return None


def _npm_links(registry: str) -> set[str] | None:
    text = _fetch(urljoin(registry.rstrip("/") + "/", f"{_NPM_PROBE}/latest"), "application/json")
    tarball = _member(text, "dist", "tarball")
    return None if text is None else {_origin(tarball)} if tarball else set()


def _cargo_links(index: str) -> set[str] | None:
    text = _fetch(urljoin(index.rstrip("/") + "/", "config.json"), "application/json")
    found = (_member(text, "dl"), _member(text, "api"))
    return None if text is None else {_origin(link) for link in found if link}


def _origin(url: str) -> str:
    parts = urlsplit(url)
    try:
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        port = ""
    return f"{parts.scheme}://{parts.hostname or ''}{port}/"


def _member(text: str | None, *path: str) -> str:
    try:
        value: Any = json.loads(text or "")
        for key in path:
            value = value[key]
    except (ValueError, KeyError, TypeError):
        return ""
    return value if isinstance(value, str) and value.startswith(("http://", "https://")) else ""


def _fetch(url: str, accept: str) -> str | None:
    """With the host's own proxy, authorities and passwords, as its clients would."""
    from http.client import HTTPException
    from urllib.request import Request, urlopen

    request = Request(url, headers={"Accept": accept, "User-Agent": "crucible"})  # noqa: S310
    try:
        with urlopen(request, timeout=ASK_S) as answer:  # noqa: S310 # http and https alone get here
            body: bytes = answer.read(MAX_ANSWER)
    except (OSError, HTTPException, ValueError):
        return None
    return body.decode("utf-8", errors="replace")


def _mark(host: Host) -> str:
    """Of all that was read, so that a changed setting is noticed; a hash, since there may be passwords in it."""
    return hashlib.sha256(json.dumps(host.read, sort_keys=True).encode()).hexdigest()


def _kept(cache: Path, mark: str) -> tuple[Rule, ...] | None:
    try:
        table = json.loads(cache.read_text(encoding="utf-8"))
        if table["mark"] != mark or not 0 <= table["until"] - time.time() <= KEPT_S:
            return None
        return tuple(parse_rule(text) for text in table["rules"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, BadSetting):
        return None


def _keep(cache: Path, mark: str, rules: tuple[Rule, ...], seconds: float) -> None:
    texts = [rule.text for rule in rules]
    body = json.dumps({"mark": mark, "until": time.time() + seconds, "rules": texts})
    new = cache.with_name(cache.name + ".new")
    try:
        cache.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(body, encoding="utf-8")
        new.replace(cache)
    except OSError:
        return
