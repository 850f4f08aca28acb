"""A provider's model as pydantic-ai knows it: the right class, profile and SDK for each wire."""

from __future__ import annotations

from typing import Any

from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.profiles import ModelProfile, merge_profile
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.deepseek import DeepSeekProvider
from pydantic_ai.providers.ollama import OllamaProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider
from pydantic_ai.providers.together import TogetherProvider

from crucible.agent.models.access import Access, Waits
from crucible.agent.models.catalog import Figures
from crucible.agent.models.wire.connection import Client

# The SDKs want some key even where none is asked for.
_NO_KEY = "none"
# Tags in the text are our own transformer's: it finds them wherever a chunk ends.
_NO_TAGS = ("\0<thinks>", "\0</thinks>")


def make_model(name: str, access: Access, figures: Figures, http: Client) -> Model[Any]:
    if access.wire == "anthropic":
        client = AsyncAnthropic(
            api_key=access.key or _NO_KEY,
            auth_token=None,
            base_url=access.base_url,
            max_retries=0,
            http_client=http,
        )
        return AnthropicModel(name, provider=AnthropicProvider(anthropic_client=client))
    openai = AsyncOpenAI(
        api_key=access.key or _NO_KEY,
        base_url=access.base_url,
        organization="",
        project="",
        max_retries=0,
        http_client=http,
    )
    provider, known = _provider(name, access, openai)
    ours = OpenAIModelProfile(
        thinking_tags=_NO_TAGS,
        openai_chat_streaming_requires_finish_reason=True,
        supports_json_schema_output=figures.has_native_schema,
    )
    if access.provider != "openai":
        # What only OpenAI itself is sure to understand is not sent to others.
        ours["openai_supports_strict_tool_definition"] = False
        ours["openai_chat_supports_max_completion_tokens"] = False
    profile = merge_profile(known, ours)
    return OpenAIChatModel(name, provider=provider, profile=profile)


def _provider(name: str, access: Access, client: AsyncOpenAI) -> tuple[Any, ModelProfile | None]:
    match access.wire:
        case "deepseek":
            return DeepSeekProvider(openai_client=client), DeepSeekProvider.model_profile(name)
        case "together":
            return TogetherProvider(openai_client=client), TogetherProvider.model_profile(name)
        case "ollama":
            return OllamaProvider(openai_client=client), OllamaProvider.model_profile(name)
    if access.provider == "openai":
        return OpenAIProvider(openai_client=client), OpenAIProvider.model_profile(name)
    other = OpenAICompatibleProvider(access.provider, openai_client=client)
    return other, OpenAICompatibleProvider.model_profile(name)


def make_http(access: Access, waits: Waits) -> Client:
    return Client(access, waits)
