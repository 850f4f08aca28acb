print("hello from Lua")
