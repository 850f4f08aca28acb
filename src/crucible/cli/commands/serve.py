"""`serve`: the program that holds the sandboxes, in the foreground and with its HTTP doors open."""

from __future__ import annotations

from crucible.cli.grammar import Arguments, Command, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from crucible.server.listening import Address

_LARGEST_PORT = 65535
_LARGEST_RATE = 1_000_000


def serve(arguments: Arguments) -> int:
    from crucible.config import load_config
    from crucible.errors import DoorOpen
    from crucible.server.serving import run_with_doors

    if not run_with_doors(load_config(), _address(arguments)):
        raise DoorOpen
    return 0


def _address(arguments: Arguments) -> Address:
    from crucible.server.doorway import ACCOUNTS, OPTIONS, PUBLIC, doorway
    from crucible.server.listening import DEFAULT_HOST, DEFAULT_PORT, Address

    given = {name: value for name in OPTIONS if (value := arguments.value(name)) is not None}
    way = doorway(given, is_public=arguments.flag(PUBLIC), has_accounts=arguments.flag(ACCOUNTS))
    return Address(
        host=arguments.value("host") or DEFAULT_HOST,
        port=_whole(arguments, "port", DEFAULT_PORT, _LARGEST_PORT),
        needs_token=not arguments.flag("no-auth"),
        host_names=tuple(arguments.values("allow-host")),
        requests_per_second=_whole(arguments, "rate-limit", 200, _LARGEST_RATE),
        tls=way.tls,
        e2b=way.e2b,
        has_accounts=way.has_accounts,
        is_signup_open=way.is_signup_open,
        oidc=way.oidc,
        public_url=way.public_url,
    )


def _whole(arguments: Arguments, option: str, usual: int, most: int) -> int:
    from crucible.errors import BadSetting

    text = arguments.value(option)
    if text is None:
        return usual
    if not (text.isascii() and text.isdecimal() and len(text) <= 9) or int(text) > most:
        raise BadSetting(
            f"{text!r} is no value for --{option}", hint=f"Give a whole number up to {most}"
        )
    return int(text)


DOORWAY = (
    Option("tls-cert", "serve HTTPS with this certificate, a PEM file", metavar="FILE"),
    Option("tls-key", "the certificate's key, a PEM file of yours alone", metavar="FILE"),
    Option(
        "e2b-domain", "serve E2B's clients that know a domain alone, under it", metavar="DOMAIN"
    ),
    Option("e2b-public", "let who knows a sandbox's id reach its ports without a token"),
    Option("accounts", "let people sign up and in with names and passwords"),
)
COMMANDS = (
    Command(
        "serve",
        run=serve,
        notes="""\
A browser comes in by the link that is printed: good once, and for ten minutes; `crucible link`
prints another. With --accounts people sign in with names and passwords instead. Programs over TCP
need a token of `crucible token create`, and none over the socket http.sock in the state directory.
Named sandboxes go on when the server ends.""",
        options=(
            Option("host", "the address to listen on (default: 127.0.0.1)", metavar="HOST"),
            Option("port", "the port, 0 for any that is free (default: 7070)", metavar="PORT"),
            Option("no-auth", "let every program of this machine in without a token"),
            Option(
                "allow-host",
                "a name under which this server is reached",
                metavar="NAME",
                is_repeatable=True,
            ),
            Option(
                "rate-limit",
                "requests a second of one caller, 0 for no limit (default: 200)",
                metavar="N",
            ),
            *DOORWAY,
        ),
        examples=(
            ("crucible serve", "serve programs of this machine that have a token"),
            ("crucible serve --port 0 --no-auth", "any free port, without tokens"),
            ("crucible serve --accounts", "for several people, each with things of their own"),
        ),
    ),
)
