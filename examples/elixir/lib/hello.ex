defmodule Hello do
  def main do
    IO.puts("hello from Elixir")
  end
end
