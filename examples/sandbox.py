"""Judges answers that nobody should run on their own machine: `python examples/sandbox.py`"""

from __future__ import annotations

import asyncio

from crucible import AsyncSandbox

ANSWERS = {
    "right": "print(sum(range(10)))",
    "wrong": "print(10 * 9)",
    "broken": "print(sum(range(10))",
}


async def judge(sandbox: AsyncSandbox, answer: str) -> str:
    done = await sandbox.run(["python3", "-c", answer], timeout_s=60)
    if done.exit.timed_out:
        return "took too long"
    if not done.ok:
        return done.stderr.splitlines()[-1]
    return "correct" if done.stdout == "45\n" else "not correct"


async def main() -> None:
    async with await AsyncSandbox.create(network="off") as sandbox:
        verdicts = await asyncio.gather(*(judge(sandbox, one) for one in ANSWERS.values()))
    for name, verdict in zip(ANSWERS, verdicts, strict=True):
        print(f"{name}: {verdict}")


if __name__ == "__main__":
    asyncio.run(main())
