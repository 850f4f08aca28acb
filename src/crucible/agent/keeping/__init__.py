"""Where sessions are kept: SQL, JSON files, or a store of one's own."""
