"""What is known of a user from one conversation to the next: facts, preferences, goals, constraints, and summaries.

It is handed what extracts and what embeds; it knows no model and no engine.
"""
