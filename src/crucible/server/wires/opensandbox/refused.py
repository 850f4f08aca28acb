"""What OpenSandbox has and we have not."""

from __future__ import annotations

from crucible.server.wires.refusing import Refused

_EXECD = "/sandboxes/{name}/execd"

REFUSED = (
    Refused("/v1/snapshots", "Snapshots are taken with our own API alone"),
    Refused("/v1/sandboxes/{name}/snapshots", "Snapshots are taken with our own API alone"),
    Refused("/v1/templates", "Templates are not served: name an image"),
    Refused("/v1/sandboxes/{name}/metadata", "Sandboxes have no metadata"),
    Refused("/v1/sandboxes/{name}/networkpolicy", "Change it with `crucible network`"),
    Refused("/v1/sandboxes/{name}/diagnostics", "Read `crucible logs` and `crucible inspect`"),
    Refused("/v1/metrics", "Figures of clients are not collected"),
    Refused("/sandboxes/{name}/egress", "Change the network with `crucible network`"),
    Refused(f"{_EXECD}/session", "Sessions of a shell are not served: run commands"),
    Refused(f"{_EXECD}/code", "Code is not run by this API: run a command"),
    Refused(f"{_EXECD}/files/permissions", "Run chmod or chown in the sandbox"),
    Refused(f"{_EXECD}/files/replace", "Read the file, and write it anew"),
    Refused(f"{_EXECD}/metrics/watch", "Ask for the figures again"),
    Refused(f"{_EXECD}/v1/isolated", "Isolated sessions are not served: make another sandbox"),
)
