"""What is under `/api/v1`, one module for each noun."""

PREFIX = "/api/v1"
