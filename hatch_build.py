"""Builds the guest agent into the wheel. An editable install leaves that to `make agent`."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class AgentBuildHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or version == "editable":
            return
        built = _agent_script(Path(self.root)).build(Path(self.root))
        build_data["artifacts"] += [str(path.relative_to(self.root)) for path in built]


def _agent_script(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("agent", root / "scripts" / "agent.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError(root / "scripts" / "agent.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
