print("hello from Python")
