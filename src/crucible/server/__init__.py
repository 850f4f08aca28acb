"""The HTTP doors: parse, call one verb of the sandbox room, render. Loaded by the resident program alone."""
