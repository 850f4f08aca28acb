"""Where sessions work: the seam of `agent.workplace` over the sandbox room."""
