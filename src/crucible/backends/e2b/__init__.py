"""Sandboxes at E2B, or at anything that speaks its wire, through the official SDK."""
