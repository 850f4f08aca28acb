"""The model at work in a sandbox: sessions, the loop, tools, and what keeps them within bounds."""
