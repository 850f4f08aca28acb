"""The Model Context Protocol: tools of other servers in, for sessions of the agent."""
