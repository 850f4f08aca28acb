"""Every command there is, with the line that help shows. Read on every start, so it imports nothing."""

from __future__ import annotations

# title, then (command, module in cli/commands, summary)
GROUPS: tuple[tuple[str, tuple[tuple[str, str, str], ...]], ...] = (
    (
        "Run something",
        (
            ("run", "run", "Run a command in a temporary sandbox; nothing is left afterwards"),
            ("exec", "execute", "Run a command in a named sandbox"),
            ("attach", "execute", "Open a shell in a named sandbox"),
        ),
    ),
    (
        "Named sandboxes",
        (
            ("create", "create", "Make a sandbox that stays until it is removed"),
            ("start", "lifecycle", "Start sandboxes; their disks are as they were"),
            ("stop", "lifecycle", "Stop sandboxes and keep their disks"),
            ("remove", "lifecycle", "Remove sandboxes and all that is in them"),
            ("pause", "lifecycle", "Hold sandboxes still; they keep their memory"),
            ("resume", "lifecycle", "Let paused sandboxes go on"),
            ("list", "listing", "List sandboxes"),
            ("inspect", "listing", "Show everything known about a sandbox"),
            ("stats", "figures", "Show what sandboxes use"),
            ("logs", "figures", "Show what commands in a sandbox have written"),
            (
                "ports",
                "figures",
                "List the ports on which a sandbox listens, or reach them from here",
            ),
            ("network", "network", "Show and change what a sandbox may reach"),
            ("open", "figures", "Show a web server of a sandbox in the browser"),
            ("prune", "lifecycle", "Remove every named sandbox that is not running"),
        ),
    ),
    (
        "Files",
        (
            ("cp", "copy", "Copy files and trees between the host and a sandbox"),
            ("diff", "workspace", "Show what a sandbox changed in the directory it got"),
            ("apply", "workspace", "Write what a sandbox changed to the host, after showing it"),
        ),
    ),
    (
        "Live state",
        (
            ("snapshot", "snapshot", "Save a running sandbox, its memory and its disk"),
            ("fork", "fork", "Make running copies of a running sandbox"),
        ),
    ),
    (
        "Agent",
        (
            ("memory", "memory", "See, change and forget what is known of you"),
            (
                "runs",
                "runs",
                "Show what agents did, export it, and check that it is what was signed",
            ),
            ("chat", "chat", "Talk with an agent that works in a sandbox"),
            ("ask", "ask", "Ask the agent one thing; for scripts and pipes too"),
            ("skill", "skills", "List, add, remove and check what the agent was taught"),
        ),
    ),
    (
        "Volumes",
        (("volume", "volumes", "List, make, inspect and remove what sandboxes share"),),
    ),
    (
        "Images",
        (("image", "images", "Fetch, list, inspect, remove, export and push images"),),
    ),
    (
        "This machine",
        (
            ("setup", "machine", "Prepare this machine: kernel, base image, template"),
            ("daemon", "daemon", "Start, stop and look at the program that keeps machines warm"),
            ("serve", "serve", "Serve the HTTP API in the foreground"),
            ("link", "link", "Print a link that signs a browser in, once"),
            ("user", "users", "Add, list, change and remove who may sign in"),
            ("budget", "budgets", "Show and set what sessions, users and sandboxes may spend"),
            ("token", "tokens", "Make, list and revoke tokens for the HTTP API"),
            ("doctor", "machine", "Check what works here, and how to mend what does not"),
            ("demo", "machine", "See a sandbox at work, step by step"),
            ("system", "system", "Show and free the space Crucible uses; uninstall it"),
            ("detect", "project", "Show which image would be taken, and why"),
            ("config", "project", "Show the settings of a sandbox and where they come from"),
            ("completion", "completion", "Print the completion script for a shell"),
            ("version", "machine", "Print the version"),
        ),
    ),
)

ALIASES = {"rm": "remove", "ls": "list"}

MODULES = {name: module for _, rows in GROUPS for name, module, _ in rows}
SUMMARIES = {name: summary for _, rows in GROUPS for name, _, summary in rows}
