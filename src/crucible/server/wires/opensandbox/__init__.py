"""The HTTP API of OpenSandbox under `/opensandbox`: its lifecycle, and its execd for each sandbox."""
