"""Skills: what an agent can be taught by a directory with a `SKILL.md`, in the open Agent Skills form."""
