System.Console.WriteLine("hello from C#");
