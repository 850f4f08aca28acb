"""Sandboxes of a Crucible server: `Sandbox` for programs that wait, `AsyncSandbox` for those that do not.

`pip install crucible-client` is all that a machine needs which talks to a server elsewhere.
"""

from __future__ import annotations

__version__ = "0.1.0"

from crucible_client import errors
from crucible_client._async.chat import AsyncChat
from crucible_client._async.client import AsyncClient
from crucible_client._async.commands import AsyncCommand
from crucible_client._async.sandbox import AsyncSandbox
from crucible_client._async.session import AsyncSession
from crucible_client._sync.chat import Chat
from crucible_client._sync.client import Client
from crucible_client._sync.commands import Command
from crucible_client._sync.sandbox import Sandbox
from crucible_client._sync.session import Session
from crucible_client.address import Address
from crucible_client.agent import (
    AgentHealth,
    Answer,
    Approval,
    ContextUsage,
    Lane,
    Replay,
    SessionInfo,
    SessionOptions,
    ToolCall,
    ToolResult,
    TurnEvent,
    Usage,
)
from crucible_client.conversations import (
    Applied,
    Artifact,
    ConversationInfo,
    RefusedChange,
    Transcript,
    Upload,
)
from crucible_client.errors import CrucibleError
from crucible_client.execution import CodeError, CodeResult, Context, Execution
from crucible_client.records import (
    Budget,
    BudgetLimit,
    Fact,
    Recalled,
    Remembered,
    RunEntry,
    RunInfo,
    RunTotal,
    Summary,
    Verdict,
)
from crucible_client.results import CommandInfo, Exit, Output, Result
from crucible_client.skills import SkillInfo, SkillTool
from crucible_client.values import FileChange, FileEntry, SandboxInfo, Snapshot

__all__ = [
    "Address",
    "AgentHealth",
    "Answer",
    "Applied",
    "Approval",
    "Artifact",
    "AsyncChat",
    "AsyncClient",
    "AsyncCommand",
    "AsyncSandbox",
    "AsyncSession",
    "Budget",
    "BudgetLimit",
    "Chat",
    "Client",
    "CodeError",
    "CodeResult",
    "Command",
    "CommandInfo",
    "Context",
    "ContextUsage",
    "ConversationInfo",
    "CrucibleError",
    "Execution",
    "Exit",
    "Fact",
    "FileChange",
    "FileEntry",
    "Lane",
    "Output",
    "Recalled",
    "RefusedChange",
    "Remembered",
    "Replay",
    "Result",
    "RunEntry",
    "RunInfo",
    "RunTotal",
    "Sandbox",
    "SandboxInfo",
    "Session",
    "SessionInfo",
    "SessionOptions",
    "SkillInfo",
    "SkillTool",
    "Snapshot",
    "Summary",
    "ToolCall",
    "ToolResult",
    "Transcript",
    "TurnEvent",
    "Upload",
    "Usage",
    "Verdict",
    "errors",
]
