module crucible.dev/agent

go 1.21
