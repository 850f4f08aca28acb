"""What `ask` and `chat` share: how a session is reached, how a turn is shown, how a person is asked."""
