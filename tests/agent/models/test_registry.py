"""Which model is taken, and what settings are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import Run

from crucible.agent.models.base import ModelRef, Purpose
from crucible.agent.models.catalog import catalog, parse_ref
from crucible.agent.models.embedded import verified_model
from crucible.agent.models.registry import EMBEDDED_REF, Registry
from crucible.agent.models.settings import PURPOSES, ModelsSettings, load_settings
from crucible.errors import BadSetting, NoKey, UnknownModel

_KEY = "sk-0123456789"


def _default(purpose: Purpose = "agent", **environment: str) -> str:
    return str(Registry(load_settings(environment)).default(purpose))


def _file(tmp_path: Path, text: str) -> dict[str, str]:
    path = tmp_path / "config.toml"
    path.write_text(text)
    path.chmod(0o600)
    return {"CRUCIBLE_CONFIG": str(path)}


def test_without_a_key_the_embedded_model_is_taken() -> None:
    for purpose in PURPOSES:
        assert _default(purpose) == str(EMBEDDED_REF)


def test_the_first_provider_with_a_key_is_taken() -> None:
    assert _default(OPENAI_API_KEY=_KEY, ANTHROPIC_API_KEY=_KEY) == "anthropic:claude-sonnet-4-6"
    assert _default("chat", ANTHROPIC_API_KEY=_KEY) == "anthropic:claude-haiku-4-5"
    assert _default(GROQ_API_KEY=_KEY).startswith("groq:")
    assert _default(OLLAMA_HOST="127.0.0.1").startswith("ollama:")


def test_what_is_named_goes_before_what_is_there() -> None:
    assert _default(ANTHROPIC_API_KEY=_KEY, LLM_PROVIDER="openai").startswith("openai:")
    assert _default(LLM_MODEL="openai:gpt-4o", ANTHROPIC_API_KEY=_KEY) == "openai:gpt-4o"
    assert _default(LLM_MODEL="gpt-4o") == "openai:gpt-4o"
    assert _default(LLM_PROVIDER="ollama", LLM_MODEL="llama3.2:1b") == "ollama:llama3.2:1b"
    assert _default("chat", LLM_MODEL="gpt-4o", LLM_CHAT_MODEL="scripted:demo") == "scripted:demo"
    assert _default(LLM_PROVIDER="embedded", OPENAI_API_KEY=_KEY) == str(EMBEDDED_REF)


def test_the_file_says_the_same_and_a_variable_goes_before_it(tmp_path: Path) -> None:
    text = (
        '[models]\nprovider = "groq"\nchat = "openai:gpt-4o"\nfallback = ["deepseek:deepseek-chat"]'
    )
    environment = _file(tmp_path, text)
    assert _default("agent", **environment).startswith("groq:")
    assert _default("chat", **environment) == "openai:gpt-4o"
    assert _default("chat", **environment, LLM_CHAT_MODEL="scripted:demo") == "scripted:demo"
    assert load_settings(environment).fallback == (parse_ref("deepseek:deepseek-chat"),)


def test_a_provider_of_ones_own_is_known_by_its_table(tmp_path: Path) -> None:
    text = """
        [models.providers.house]
        base_url = "https://models.example.com/v1/"
        key_env = "HOUSE_KEY"
        [models.named."house:big:one"]
        context_tokens = 99
        calls_tools = false
    """
    environment = {**_file(tmp_path, text), "HOUSE_KEY": _KEY}
    settings = load_settings(environment)
    access = settings.access(parse_ref("house:any"))
    assert (access.base_url, access.key, access.wire) == (
        "https://models.example.com/v1",
        _KEY,
        "openai",
    )
    registry = Registry(settings)
    profile = registry.model(registry.parse("house:big:one")).profile
    assert (profile.context_tokens, profile.calls_tools) == (99, False)


def test_a_key_in_the_file_is_taken_if_nobody_else_can_read_it(tmp_path: Path) -> None:
    environment = _file(tmp_path, f'[models.providers.openai]\nkey = "{_KEY}"')
    assert load_settings(environment).access(parse_ref("openai:any")).key == _KEY
    (tmp_path / "config.toml").chmod(0o644)
    with pytest.raises(BadSetting, match="can be read by others") as raised:
        load_settings(environment)
    assert "chmod 600" in raised.value.hint


def test_a_model_may_have_a_key_and_an_address_of_its_own(tmp_path: Path) -> None:
    text = f"""
        [models.providers.openai]
        key_env = "COMMON_KEY"
        [models.named."openai:dear"]
        key_env = "DEAR_KEY"
        context_tokens = 99
        [models.named."openai:far"]
        key = "{_KEY}-far"
        base_url = "https://far.example.com/v1"
    """
    environment = {**_file(tmp_path, text), "COMMON_KEY": "common", "DEAR_KEY": "dear"}
    settings = load_settings(environment)

    def opened(name: str, settings: ModelsSettings = settings) -> tuple[str, str]:
        access = settings.access(parse_ref(name))
        return access.key, access.base_url

    usual = "https://api.openai.com/v1"
    assert opened("openai:other") == ("common", usual)
    assert opened("openai:dear") == ("dear", usual)
    assert opened("openai:far") == (f"{_KEY}-far", "https://far.example.com/v1")
    registry = Registry(settings)
    assert registry.model(parse_ref("openai:dear")).profile.context_tokens == 99
    assert _KEY not in repr(settings)
    # Who pays with a key of their own pays with that for each model.
    own = settings.with_keys({"openai": "own"})
    assert {opened(f"openai:{name}", own)[0] for name in ("other", "dear", "far")} == {"own"}


@pytest.mark.parametrize(
    "text",
    [
        '[models]\nmodle = "a:b"',
        "[models]\nproviders = 3",
        "[models.providers]\nhouse = 3",
        '[models.providers.house]\nbase_url = "ftp://x"',
        '[models.providers.house]\nbase_url = "https://user:secret@x/v1"',
        '[models.providers.house]\nbase_url = "https://x/v1?key=secret"',
        '[models.providers.house]\nwire = "carrier pigeon"',
        '[models.providers.house]\nsecret = "x"',
        '[models.providers."a:b"]\nwire = "openai"',
        '[models.named."a:b"]\ncontext_tokens = -1',
        '[models.named."a:b"]\ncontext_tokens = "many"',
        '[models.named."a:b"]\ncalls_tools = 1',
        '[models.named."a:b"]\nmood = 1',
        '[models.named."a:b"]\nkey = 12345',
        '[models.named."a:b"]\nbase_url = "https://user:secret@x/v1"',
        '[models]\nprovider = "antrophic"',
    ],
)
def test_settings_that_mean_nothing_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadSetting) as raised:
        load_settings(_file(tmp_path, text))
    assert "secret@" not in str(raised.value)


@pytest.mark.parametrize("key", ["line\nbreak", "ünïcode", "x" * 5000, "\x01"])
def test_a_key_that_is_none_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(BadSetting) as raised:
        load_settings({"OPENAI_API_KEY": key})
    assert key not in str(raised.value)


@pytest.mark.parametrize(
    "host, address",
    [
        ("127.0.0.1", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0:9999", "http://127.0.0.1:9999/v1"),
        (":9999", "http://127.0.0.1:9999/v1"),
        ("http://box:80/", "http://box:80/v1"),
        ("https://box.example", "https://box.example/v1"),
        ("[::1]", "http://[::1]:11434/v1"),
    ],
)
def test_the_host_of_ollama_is_read_as_ollama_reads_it(host: str, address: str) -> None:
    assert load_settings({"OLLAMA_HOST": host}).access(parse_ref("ollama:any")).base_url == address


def test_a_model_without_a_key_comes_with_the_variable_to_set() -> None:
    registry = Registry(load_settings({}))
    with pytest.raises(NoKey) as raised:
        registry.model(ModelRef(provider="anthropic", name="claude-sonnet-4-6"))
    assert raised.value.hint == "Set ANTHROPIC_API_KEY"


@pytest.mark.parametrize(
    "text", ["", ":", "anthropic:", "nobody:model", "embedded:gpt", "scripted:no"]
)
def test_what_names_no_model_is_unknown(text: str) -> None:
    registry = Registry(load_settings({}))
    with pytest.raises(UnknownModel):
        registry.model(registry.parse(text))


def test_each_model_is_made_once(run: Run) -> None:
    registry = Registry(load_settings({"OPENAI_API_KEY": _KEY}))
    ref = registry.default("agent")
    assert registry.model(ref) is registry.model(ref)
    run(registry.close())


def test_every_usual_model_is_in_the_catalog() -> None:
    for name, provider in catalog().providers.items():
        for model in provider.defaults.values():
            ref = ModelRef(provider=name, name=model)
            assert str(ref) in catalog().models
            assert catalog().figures(ref).profile().takes_schema


def test_the_embedded_models_file_is_read_whole_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    path = verified_model()

    def refuse(model: object) -> Path:
        raise AssertionError("it was read again")

    monkeypatch.setattr("crucible.weights.verify", refuse)
    assert verified_model() == path
