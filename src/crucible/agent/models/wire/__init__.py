"""The only package that knows pydantic-ai and the providers' SDKs. Loading it takes seconds: import it in a thread."""
