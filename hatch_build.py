"""Builds the guest agent and the web application into the wheel. An editable install leaves that to `make setup`."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BuildHook(BuildHookInterface[Any]):
    def dependencies(self) -> list[str]:
        """Node, for a host that has none."""
        web = _script(Path(self.root), "web")
        return [] if web.has_node() else [web.PACKAGE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or version == "editable":
            return
        root = Path(self.root)
        built = [
            *_script(root, "agent").build(root),
            *_script(root, "web").build(root),
        ]
        build_data["artifacts"] += [str(path.relative_to(self.root)) for path in built]


def _script(root: Path, name: str) -> ModuleType:
    path = root / "scripts" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
