"""Fetches what the address on standard input (JSON: url, offset, save) names, and prints it as text."""

import json
import sys
import urllib.error
import urllib.request
from html.parser import HTMLParser

MOST_BYTES = 8 << 20
MOST_SHOWN = 20_000
BLOCKS = {
    "p", "div", "br", "li", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "section", "article",
    "header", "footer", "table", "ul", "ol", "blockquote",
}  # fmt: skip
UNSEEN = {"script", "style", "noscript", "template", "svg", "head"}


class Reader(HTMLParser):
    """The text of a page, with its links in brackets behind their words."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.pieces = []
        self.title = ""
        self.hidden = 0
        self.links = []
        self.in_title = False

    def handle_starttag(self, tag, attrs):
        if tag in UNSEEN:
            self.hidden += 1
        if tag == "title":
            self.in_title = True
        if tag in BLOCKS:
            self.pieces.append("\n")
        if tag == "a":
            self.links.append(dict(attrs).get("href") or "")

    def handle_endtag(self, tag):
        if tag in UNSEEN and self.hidden:
            self.hidden -= 1
        if tag == "title":
            self.in_title = False
        if tag in BLOCKS:
            self.pieces.append("\n")
        if tag == "a" and self.links:
            target = self.links.pop()
            if target.startswith(("http://", "https://", "/")):
                self.pieces.append(" [%s]" % target)

    def handle_data(self, data):
        if self.in_title:
            self.title += data
        elif not self.hidden:
            self.pieces.append(data)

    def text(self):
        lines = (" ".join(line.split()) for line in "".join(self.pieces).split("\n"))
        body = "\n".join(line for line in lines if line)
        title = " ".join(self.title.split())
        return "# %s\n\n%s" % (title, body) if title else body


def main():
    asked = json.load(sys.stdin)
    url = asked["url"]
    if not url.startswith(("http://", "https://")):
        sys.exit("only http and https addresses can be fetched, not %r" % url[:80])
    request = urllib.request.Request(url, headers={"User-Agent": "crucible-web-fetch/1"})
    try:
        answer = urllib.request.urlopen(request, timeout=45)
    except urllib.error.HTTPError as error:
        answer = error
    except (OSError, ValueError) as error:
        sys.exit("%s could not be reached from the sandbox: %s" % (url, error))
    data = answer.read(MOST_BYTES + 1)
    kind = answer.headers.get_content_type()
    if asked.get("save"):
        with open(asked["save"], "wb") as file:
            file.write(data)
    print("status %d, %s, %d bytes" % (answer.status, kind, len(data)))
    if len(data) > MOST_BYTES:
        print("only the first %d bytes were read" % MOST_BYTES)
    show(data, kind, answer.headers.get_content_charset() or "utf-8", asked.get("offset") or 0)
    sys.exit(0 if 200 <= answer.status < 300 else 1)


def show(data, kind, charset, offset):
    if kind not in ("application/json", "application/xml") and not kind.startswith("text/"):
        print("This is no text; give `save` a path to keep it.")
        return
    try:
        text = data.decode(charset, "replace")
    except LookupError:
        text = data.decode("utf-8", "replace")
    if kind == "text/html":
        reader = Reader()
        reader.feed(text)
        text = reader.text()
    print()
    print(text[offset : offset + MOST_SHOWN])
    left = len(text) - offset - MOST_SHOWN
    if left > 0:
        print("[%d more characters; the next begin at offset %d]" % (left, offset + MOST_SHOWN))


main()
