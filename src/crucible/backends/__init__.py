"""One folder or file per way to boot; none knows another."""
