"""What agentkernel has and we have not."""

from __future__ import annotations

from crucible.server.wires.refusing import Refused

_POST = ("POST",)

REFUSED = (
    Refused("/orchestrations", "Durable workflows are not served"),
    Refused("/objects", "Durable objects are not served"),
    Refused("/schedules", "Schedules are not served"),
    Refused("/stores", "Durable stores are not served"),
    Refused("/sandboxes/{name}/browser", "Browser pages are not served"),
    Refused("/sandboxes/{name}/git", "Git is not served: run git in the sandbox"),
    Refused("/sandboxes/{name}/fork", "Copies are made with our own API alone", _POST),
    Refused("/sandboxes/{name}/resize", "A sandbox keeps the size it was made with", _POST),
    Refused("/sandboxes/{name}/recover", "Sandboxes are not archived", _POST),
    Refused("/sandboxes/{name}", "A sandbox has no labels", ("PATCH",), is_alone=True),
)
