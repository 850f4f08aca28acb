"""What a project's directory asks for: its crucible.toml, devcontainer.json, Procfile and files."""
