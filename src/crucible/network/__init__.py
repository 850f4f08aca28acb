"""What a sandbox may reach. The guest asks by name; everything is decided and dialled on the host."""
