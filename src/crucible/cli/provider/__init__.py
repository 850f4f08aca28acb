"""`microvmctl`: sandboxes for programs, by a written contract. docs/reference/microvmctl.md is that contract."""
