"""An MCP server of nothing but the standard library: the protocol of 2025 over its input and output.

For sandboxes, whose processor is emulated: to load the official SDK there takes it half a minute. That our side gets
along with the SDK's servers is tested on the host, with `servers`.
"""

import json
import os
import sys
from typing import Any

_NUMBERS = {"a": {"type": "integer"}, "b": {"type": "integer"}}
_TOOLS = (
    {
        "name": "add",
        "description": "Adds two numbers.",
        "inputSchema": {"type": "object", "properties": _NUMBERS, "required": ["a", "b"]},
    },
    {
        "name": "variable",
        "description": "Tells a variable of its environment.",
        "inputSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
    },
    {"name": "fail", "description": "Fails.", "inputSchema": {"type": "object"}},
)


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked:
            answer = {"jsonrpc": "2.0", "id": asked["id"], **_answer(asked)}
            print(json.dumps(answer), flush=True)


def _answer(asked: dict[str, Any]) -> dict[str, Any]:
    match asked["method"]:
        case "initialize":
            server = {"name": "plain", "version": "1"}
            told = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
            return {"result": {**told, "serverInfo": server}}
        case "tools/list":
            return {"result": {"tools": _TOOLS}}
        case "tools/call":
            return {"result": _call(asked["params"]["name"], asked["params"].get("arguments", {}))}
    return {"error": {"code": -32601, "message": "no such method"}}


def _call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    match name:
        case "add":
            text = str(arguments["a"] + arguments["b"])
        case "variable":
            text = os.environ.get(arguments["name"], "(unset)")
        case _:
            text = "this always fails"
    return {"content": [{"type": "text", "text": text}], "isError": name == "fail"}


if __name__ == "__main__":
    main()
