"""Who may spend how much: users and their plans, prices of models, budgets that are checked before the spend."""
