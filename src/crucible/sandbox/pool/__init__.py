"""Machines that wait warm for whoever runs something next. Each is used once, by one sandbox, and thrown away."""
