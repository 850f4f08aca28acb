"""`setup`, `doctor`, `demo`, `version`: this machine rather than a sandbox."""

from __future__ import annotations

from crucible.cli.grammar import Arguments, Command, Option


def setup(arguments: Arguments) -> int:
    from crucible.cli.progress import StepLines
    from crucible.config import load_config
    from crucible.setup import run_setup

    steps = StepLines()
    run_setup(load_config(), steps.note)
    steps.finish()
    return 0


def doctor(arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.config import load_config
    from crucible.errors import EXIT_FAILED
    from crucible.setup import diagnose

    checks = diagnose(load_config())
    if arguments.flag("json"):
        from dataclasses import asdict

        render.show_json([asdict(check) for check in checks])
    return 0 if all(check.is_good for check in checks) else EXIT_FAILED


def demo(arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.config import load_config
    from crucible.setup import run_demo

    run_demo(load_config(), render.say)
    return 0


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
        notes="""\
What is there already is left as it is, so it can be run again at any time and goes on
where it was interrupted. System packages are not installed: `crucible doctor` names
the command for those that are missing.""",
        examples=(("crucible setup", "some minutes the first time, seconds later"),),
    ),
    Command(
        "doctor",
        doctor,
        options=(Option("json", "print JSON"),),
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
        options=(Option("json", "print JSON"),),
        examples=(("crucible version", "also `crucible --version`"),),
    ),
)
