"""Every key a crucible.toml may have, as data: what kind of value it takes and what it sets."""

from __future__ import annotations

from typing import Any, NamedTuple

from crucible.sandbox.profiles import NETWORK_MODES, PROFILES


class Kind(NamedTuple):
    """`types` are what TOML gives; `said` is how an error asks for it."""

    types: tuple[type, ...]
    said: str
    json: dict[str, Any]


TEXT = Kind((str,), "a text in quotes", {"type": "string"})
WHOLE = Kind((int,), "a whole number", {"type": "integer", "minimum": 0})
FLAG = Kind((bool,), "true or false", {"type": "boolean"})
TIME = Kind((str,), 'a time such as "10m"', {"type": "string"})
TEXTS = Kind((list,), "a list of texts", {"type": "array", "items": {"type": "string"}})
NAMES = Kind(
    (bool, list),
    "true, false or a list of names",
    {"type": ["boolean", "array"], "items": {"type": "string"}},
)
PAIRS = Kind(
    (dict,), "a table of texts", {"type": "object", "additionalProperties": {"type": "string"}}
)


class Key(NamedTuple):
    """`target` is the field of the specification it sets; `choices` are all the values there are."""

    section: str
    name: str
    kind: Kind
    target: str
    meaning: str
    choices: tuple[str, ...] = ()


KEYS = (
    Key("sandbox", "name", TEXT, "name", "the sandbox's name, if the command line gives none"),
    Key("sandbox", "image", TEXT, "image", "the image"),
    Key("sandbox", "base_image", TEXT, "image", "another word for `image`; not both"),
    Key("sandbox", "images", PAIRS, "images", "further images beside it, by the name that `--in` takes"),
    Key("sandbox", "user", TEXT, "user", "who its commands are"),
    Key("sandbox", "workdir", TEXT, "workdir", "where its commands begin"),
    Key("sandbox", "env", PAIRS, "environment", "variables for its commands"),
    Key(
        "agent", "preferred", TEXT, "agent", "the coding agent the project is worked on with",
        ("claude", "gemini", "codex", "opencode"),
    ),
    Key("resources", "vcpus", WHOLE, "cpus", "processors, 1 to 16"),
    Key("resources", "memory_mb", WHOLE, "memory_mib", "memory in MiB, rounded up to the next tier"),
    Key("resources", "disk_mb", WHOLE, "disk_mib", "size of the disk in MiB, from 256"),
    Key("resources", "processes", WHOLE, "processes", "processes that a command may have; 0 is no limit"),
    Key("resources", "output_mb", WHOLE, "output_mib", "output in MiB after which a command is ended; 0 is no limit"),
    Key("resources", "connections", WHOLE, "connections", "connections to the network at once"),
    Key("resources", "idle_timeout", TIME, "idle_timeout_s", "stop it when nothing was done in it for so long: `10m`"),
    Key("resources", "ttl", TIME, "ttl_s", "remove it when it is so old: `2h`"),
    Key("security", "profile", TEXT, "profile", "where all else begins from", tuple(PROFILES)),
    Key("security", "network", FLAG, "network", "false turns the network off, whatever the profile"),
    Key("security", "read_only", FLAG, "read_only", "whether the sandbox can write to its disk"),
    Key(
        "security", "drop_capabilities", FLAG, "drop_capabilities",
        "whether root inside has no powers of its own",
    ),
    Key("security", "mount_cwd", FLAG, "mount_cwd", "whether a copy of the directory becomes the workspace"),
    Key("security", "mount_home", FLAG, "mount_home", "whether it gets a copy of your home, without credentials"),
    Key(
        "security", "pass_env", NAMES, "pass_env",
        "variables of this host to pass on: names, or true for all but credentials",
    ),
    Key(
        "security", "min_isolation", TEXT, "min_isolation", "refuse anything weaker",
        ("hardware-vm", "software-vm", "userspace-kernel", "wasm", "namespace"),
    ),
    Key(
        "provider", "mode", TEXT, "provider", "where the sandbox runs",
        ("auto", "local_microvm", "remote_e2b"),
    ),
    Key(
        "provider", "fallback_to_remote", FLAG, "fallback",
        "whether it may go to the remote provider when no machine works here",
    ),
    Key("network", "mode", TEXT, "network", "what can be reached", NETWORK_MODES),
    Key("network", "allow", TEXTS, "allow", "rules for what may be reached: `host`, `*.host`, `host:port`"),
    Key("network", "deny", TEXTS, "deny", "rules for what may not; they win"),
    Key("ports", "publish", TEXTS, "ports", "ports to reach from here: `8080`, `9000:80`"),
)  # fmt: skip

# Its keys are targets, which the user makes up.
MOUNTS = "mounts"
SECTIONS = (*dict.fromkeys(key.section for key in KEYS), MOUNTS)


_MOUNTS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "what is copied in besides the workspace, by its place in the sandbox",
    "properties": {},
    "additionalProperties": {
        "anyOf": [
            {"type": "string"},
            {
                "type": "object",
                "additionalProperties": False,
                "required": ["source"],
                "properties": {"source": {"type": "string"}, "writable": {"type": "boolean"}},
            },
            {
                "type": "object",
                "additionalProperties": False,
                "required": ["volume"],
                "properties": {"volume": {"type": "string"}},
            },
        ]
    },
}


def find_key(section: str, name: str) -> Key | None:
    return next((key for key in KEYS if (key.section, key.name) == (section, name)), None)


def names_in(section: str) -> tuple[str, ...]:
    return tuple(key.name for key in KEYS if key.section == section)


def json_schema() -> dict[str, Any]:
    """For editors: the same table as a JSON Schema."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "crucible.toml",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            section: {
                "type": "object",
                "additionalProperties": False,
                "properties": {key.name: _property(key) for key in KEYS if key.section == section},
            }
            for section in SECTIONS
            if section != MOUNTS
        }
        | {
            MOUNTS: _MOUNTS_SCHEMA,
            "secrets": {
                "type": "object",
                "description": "names of secrets and the hosts they are for",
                "additionalProperties": {"type": "string"},
            },
        },
    }


def _property(key: Key) -> dict[str, Any]:
    described = {**key.kind.json, "description": key.meaning}
    return {**described, "enum": list(key.choices)} if key.choices else described
