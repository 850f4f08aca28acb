"""Prices in whole millionths of a USD: never too little, and None where nobody knows."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crucible.accounts.prices import Prices, Tokens
from crucible.errors import BadSetting

MODELS = [
    ("anthropic", "claude-sonnet-4-5"), ("openai", "gpt-4o"), ("openai", "gpt-5"), ("deepseek", "deepseek-chat"),
    ("gemini", "gemini-2.5-pro"), ("groq", "llama-3.3-70b-versatile"), ("openrouter", "openai/gpt-4o"),
    ("mistral", "mistral-large-latest"), ("together", "meta-llama/Llama-3.3-70B-Instruct-Turbo"),
]  # fmt: skip


@pytest.mark.parametrize("provider,model", MODELS)
def test_the_table_knows_the_providers_that_have_endpoints(provider: str, model: str) -> None:
    assert (Prices().cost(provider, model, Tokens(input=1000, output=1000)) or 0) > 0


def test_the_cache_has_prices_of_its_own() -> None:
    prices = Prices()
    model = ("anthropic", "claude-sonnet-4-5")
    million = 1_000_000 // 10
    assert prices.cost(*model, Tokens(input=million)) == 300_000
    assert prices.cost(*model, Tokens(input=million, cache_read=million)) == 30_000
    assert prices.cost(*model, Tokens(input=million, cache_write=million)) == 375_000
    hour = Tokens(input=million, cache_write=million, cache_write_1h=million)
    assert prices.cost(*model, hour) == 600_000


def test_a_fraction_is_rounded_up() -> None:
    prices = Prices.of_setting("acme:m=0.1/0.1")
    assert prices.cost("acme", "m", Tokens(input=1)) == 1
    assert prices.cost("acme", "m", Tokens(input=11)) == 2


@pytest.mark.parametrize("provider", ["ollama", "embedded", "scripted"])
def test_what_runs_here_costs_nothing(provider: str) -> None:
    assert Prices().cost(provider, "anything", Tokens(input=10**6, output=10**6)) == 0
    assert Prices().worst_case(provider, "anything", input_tokens=9, output_tokens=9) == 0


@pytest.mark.parametrize(
    "provider,model",
    [("openai", "gpt-nosuch"), ("nobody", "gpt-4o"), ("openai", ""), ("openai", "g" * 10_000),
     ("openai", "text-embedding-3-small")],
)  # fmt: skip
def test_a_model_that_nobody_knows_has_no_price(provider: str, model: str) -> None:
    assert Prices().cost(provider, model, Tokens(input=1, output=1)) is None
    assert Prices().worst_case(provider, model, input_tokens=1, output_tokens=1) is None


def test_what_the_user_sets_goes_before_the_table() -> None:
    prices = Prices.of_setting("openai:gpt-4o=1/2, acme:*=3/4/0.3/5")
    assert prices.cost("openai", "gpt-4o", Tokens(input=10, output=10)) == 30
    cached = Tokens(input=10, cache_read=10)
    assert prices.cost("acme", "whatever", cached) == 3
    assert prices.worst_case("acme", "x", input_tokens=10, output_tokens=1) == 10 * 5 + 4 + 1
    assert prices.cost("openai", "gpt-5", Tokens(input=10**6)) == 1_250_000


@pytest.mark.parametrize(
    "text", ["x", "a:b", "a:b=", "a:b=1", "a:b=1/2/3", "a:b=-1/2", "a:b=1e3/2", "a:b=1..2/2", "a:b=9999999/1",
             "=1/2", "a:b=1/2;c:d=1/2"],
)  # fmt: skip
def test_a_price_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(BadSetting):
        Prices.of_setting(text)


@given(
    st.sampled_from(MODELS),
    st.integers(0, 400_000),
    st.integers(0, 100_000),
    st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)),
    st.tuples(st.floats(0, 1), st.floats(0, 1)),
)
def test_no_call_within_its_bounds_costs_more_than_the_worst_case(
    model: tuple[str, str],
    most_input: int,
    most_output: int,
    shares: tuple[float, float, float],
    used: tuple[float, float],
) -> None:
    plain = int(most_input * used[0])
    read = int(plain * shares[0])
    write = int((plain - read) * shares[1])
    tokens = Tokens(
        input=plain,
        output=int(most_output * used[1]),
        cache_read=read,
        cache_write=write,
        cache_write_1h=int(write * shares[2]),
    )
    prices = Prices()
    cost = prices.cost(*model, tokens)
    worst = prices.worst_case(*model, input_tokens=most_input, output_tokens=most_output)
    assert cost is not None
    assert worst is not None
    assert 0 <= cost <= worst


def test_prices_come_from_the_variable_or_from_the_users_own_file(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('[prices]\nmodels = ["acme:m=1/2", "acme:n=3/4"]\n')
    path.chmod(0o600)
    by_file = Prices.of_environment({"CRUCIBLE_CONFIG": str(path)})
    assert by_file.cost("acme", "n", Tokens(input=1, output=1)) == 7
    both = {"CRUCIBLE_CONFIG": str(path), "CRUCIBLE_PRICES": "acme:n=0/0"}
    assert Prices.of_environment(both).cost("acme", "n", Tokens(input=1, output=1)) == 0
    assert Prices.of_environment({}).cost("acme", "n", Tokens(input=1)) is None
