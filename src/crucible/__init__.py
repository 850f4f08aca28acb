"""Runs AI agents and the code they write inside microVMs, on one ordinary machine."""

from __future__ import annotations

__version__ = "0.1.0"
