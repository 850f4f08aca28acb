"""The short way to the program that holds the running sandboxes: standard library only, no asyncio."""
