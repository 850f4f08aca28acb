"""Asks the image model of the configured provider for a picture (JSON on standard input: prompt, path, size, model).

The provider's key is not here: the gateway outside adds it to requests for the provider's endpoint.
"""

import base64
import json
import os
import sys
import urllib.error
import urllib.request

NOT_CONFIGURED = """\
No image provider is configured for this sandbox. The user can give it one: a session whose sandbox has OpenAI's key \
bound (or another provider with the same API) has OPENAI_BASE_URL set in it."""


def main():
    asked = json.load(sys.stdin)
    base = os.environ.get("IMAGE_BASE_URL") or os.environ.get("OPENAI_BASE_URL")
    if not base:
        sys.exit(NOT_CONFIGURED)
    body = {
        "model": asked.get("model") or os.environ.get("IMAGE_MODEL") or "gpt-image-1",
        "prompt": asked["prompt"],
        "size": asked.get("size") or "1024x1024",
        "n": 1,
    }
    request = urllib.request.Request(
        base.rstrip("/") + "/images/generations",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        answer = json.load(urllib.request.urlopen(request, timeout=280))
    except urllib.error.HTTPError as error:
        sys.exit(
            "the provider refused: status %d, %s"
            % (error.code, error.read(2000).decode("utf-8", "replace"))
        )
    except (OSError, ValueError) as error:
        sys.exit("the provider could not be asked: %s" % error)
    try:
        data = base64.b64decode(answer["data"][0]["b64_json"], validate=True)
    except (KeyError, IndexError, TypeError, ValueError):
        sys.exit("the provider's answer has no picture in it")
    path = asked.get("path") or "/workspace/picture.png"
    with open(path, "wb") as file:
        file.write(data)
    print("wrote %s, %d bytes; hand it over with publish" % (path, len(data)))


main()
