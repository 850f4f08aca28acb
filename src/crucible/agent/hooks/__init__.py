"""The user's own say in what an agent does: programs that are asked before and after each step."""
