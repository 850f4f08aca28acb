"""A machine's way out: shut by default, and with a scripted host outside open for TCP by its leave alone."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.vm.conftest import python, shell
from tests.vm.outside import echo, outside, tell_what_was_asked

from crucible.errors import GuestRefused
from crucible.network.outlet import Ask, ByteStream
from crucible.sandbox.holding import Held
from crucible.sandbox.session import Command

pytestmark = pytest.mark.vm

USER = "nobody"

# Tries every way out and prints what came of it.
EVERY_WAY = """
import errno, socket, struct
question = b"\\x12\\x34\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\7example\\3com\\0\\0\\1\\0\\1"
def attempt(name, work):
    try:
        work()
        print(name, "worked")
    except socket.gaierror as error:
        print(name, "no name")
    except OSError as error:
        print(name, errno.errorcode.get(error.errno, str(error)))
def tcp(family, address):
    with socket.socket(family) as s:
        s.settimeout(20)
        s.connect(address)
        s.sendall(b"x")
        if not s.recv(1):
            raise ConnectionResetError(errno.ECONNRESET, "closed")
def udp(family, address):
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.settimeout(2)
        s.sendto(question, address)
        s.recv(512)
def raw(protocol, family=socket.AF_INET, address="1.2.3.4"):
    with socket.socket(family, socket.SOCK_RAW, protocol) as s:
        s.sendto(b"\\x08\\0\\xf7\\xff\\0\\0\\0\\0" + bytes(20), (address, 0))
def forged():
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as s:
        header = struct.pack("!BBHHHBBH4s4s", 69, 0, 28, 0, 0, 64, 17, 0, bytes([198, 18, 0, 1]), bytes([8, 8, 8, 8]))
        s.sendto(header + struct.pack("!HHHH", 5353, 53, 8, 0), ("8.8.8.8", 0))
attempt("name", lambda: tcp(socket.AF_INET, (socket.gethostbyname("example.com"), 80)))
attempt("v4", lambda: tcp(socket.AF_INET, ("1.2.3.4", 80)))
attempt("v6", lambda: tcp(socket.AF_INET6, ("2001:db8::1", 80)))
attempt("mapped", lambda: tcp(socket.AF_INET6, ("::ffff:1.2.3.4", 80)))
attempt("private", lambda: tcp(socket.AF_INET, ("10.0.0.1", 80)))
attempt("metadata", lambda: tcp(socket.AF_INET, ("169.254.169.254", 80)))
attempt("resolver", lambda: udp(socket.AF_INET, ("8.8.8.8", 53)))
attempt("resolver6", lambda: udp(socket.AF_INET6, ("2001:4860:4860::8888", 53)))
attempt("resolver-tcp", lambda: tcp(socket.AF_INET, ("8.8.8.8", 53)))
attempt("broadcast", lambda: udp(socket.AF_INET, ("255.255.255.255", 53)))
attempt("multicast", lambda: udp(socket.AF_INET, ("224.0.0.251", 5353)))
attempt("ping", lambda: raw(socket.IPPROTO_ICMP))
attempt("ping6", lambda: raw(socket.IPPROTO_ICMPV6, socket.AF_INET6, "2001:db8::1"))
attempt("raw-udp", lambda: raw(socket.IPPROTO_UDP))
attempt("forged", forged)
"""

UNREACHABLE = {
    "name": "no name",
    **dict.fromkeys(("v4", "v6", "mapped", "private", "metadata", "resolver-tcp"), "ENETUNREACH"),
    **dict.fromkeys(("resolver", "resolver6", "broadcast", "multicast"), "ENETUNREACH"),
    **dict.fromkeys(("ping", "ping6", "raw-udp", "forged"), "ENETUNREACH"),
}


async def ways(held: Held) -> dict[str, str]:
    done = await python(held, EVERY_WAY, timeout_s=240)
    assert done.exit.status == 0, done.errors
    return dict(line.split(" ", 1) for line in done.output.decode().splitlines())


async def test_nothing_outside_can_be_reached_by_default(box: Held) -> None:
    assert await ways(box) == UNREACHABLE


async def test_every_tcp_connection_is_for_the_host_to_refuse_and_the_rest_has_no_way(
    box: Held,
) -> None:
    async with outside(box) as host:
        found = await ways(box)
    refused = dict.fromkeys(
        ("v4", "v6", "mapped", "private", "metadata", "resolver-tcp"), "ECONNRESET"
    )
    assert found == {**UNREACHABLE, **refused, "name": "ECONNRESET"}
    assert [(ask.name, ask.address, ask.port) for ask in host.asked if not ask.name] == [
        ("", "1.2.3.4", 80),
        ("", "2001:db8::1", 80),
        ("", "1.2.3.4", 80),
        ("", "10.0.0.1", 80),
        ("", "169.254.169.254", 80),
        ("", "8.8.8.8", 53),
    ]
    assert [(ask.name, ask.port) for ask in host.asked if ask.name] == [("example.com", 80)]
    assert await ways(box) == UNREACHABLE


async def test_ways_around_connect_are_shut_too(box: Held) -> None:
    """Fast open, multipath and packets of one's own making."""
    script = """
import errno, socket, struct
def attempt(work):
    try:
        work()
        print("worked")
    except OSError as error:
        print(errno.errorcode.get(error.errno, str(error)))
def fast():
    with socket.socket() as s:
        s.sendto(b"x", 0x20000000, ("1.2.3.4", 80))
        print(s.recv(1))
def multipath():
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262) as s:
        s.connect(("1.2.3.4", 80))
        print(s.recv(1))
def forged():
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP) as s:
        s.settimeout(20)
        s.sendto(struct.pack("!HHIIBBHHH", 4000, 80, 1, 0, 5 << 4, 2, 1000, 0, 0), ("1.2.3.4", 0))
attempt(fast)
attempt(multipath)
attempt(forged)
"""
    done = await python(box, script)
    assert done.output.decode().split()[0] == "ENETUNREACH", done.errors
    assert done.output.decode().split()[1] in ("ENETUNREACH", "ECONNREFUSED", "EPROTONOSUPPORT")
    async with outside(box, tell_what_was_asked) as host:
        assert (await python(box, "print()")).exit.status == 0
    assert host.asked == []


@pytest.mark.parametrize("user", ["", USER], ids=["root", "user"])
async def test_no_privilege_inside_opens_the_way(box: Held, user: str) -> None:
    """No route, no address, no name space and no program of the kernel's can be made that leads out."""
    script = """
import ctypes, os, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
def route(kind, flags):
    body = struct.pack("BBBBBBBBI", socket.AF_INET, 0, 0, 0, 100, 4, 254, 2, 0) + struct.pack("HHI", 8, 4, 1)
    netlink.send(struct.pack("IHHII", 16 + len(body), kind, flags | 5, 1, 0) + body)
    return struct.unpack("i", netlink.recv(4096)[16:20])[0]
print(route(24, 0x400) < 0, route(25, 0) < 0)
attribute = bytes(128)
print(libc.syscall(321 if os.uname().machine == "x86_64" else 280, 5, attribute, 128) < 0)
print(os.path.exists("/dev/net/tun"), os.access("/proc/sys/net/ipv4/ip_forward", os.W_OK))
"""
    done = await python(box, script, user=user)
    assert done.output.decode().split() == ["True", "True", "True", "False", "False"], done.errors


async def test_the_host_is_asked_by_the_name_that_was_looked_up(box: Held) -> None:
    async with outside(box, tell_what_was_asked) as host:
        done = await python(
            box,
            """
import socket
names = "Example.COM", "a.b.example", "xn--bcher-kva.example", "_dmarc.example.com."
for name, port in zip(names, (443, 1, 65535, 8080)):
    with socket.create_connection((name, port), 30) as s:
        print(s.recv(200).decode(), s.getpeername()[1])
""",
        )
    lines = done.output.decode().splitlines()
    assert [line.split()[0] for line in lines] == [
        "example.com",
        "a.b.example",
        "xn--bcher-kva.example",
        "_dmarc.example.com",
    ]
    assert [line.split()[2:] for line in lines] == [
        [port, port] for port in ("443", "1", "65535", "8080")
    ]
    assert all(ask.address.startswith("198.18.") for ask in host.asked)


async def test_an_address_that_no_name_has_is_reset_without_asking(box: Held) -> None:
    async with outside(box, tell_what_was_asked) as host:
        done = await python(
            box,
            """
import socket
for address in "198.18.200.7", "198.19.255.255", "198.18.0.2", "198.18.0.3":
    try:
        with socket.create_connection((address, 80), 30) as s:
            print(s.recv(100))
    except ConnectionError as error:
        print("refused")
""",
        )
    assert done.output == b"refused\n" * 4
    assert host.asked == []


async def test_every_port_number_leads_to_the_host(box: Held) -> None:
    async with outside(box, tell_what_was_asked) as host:
        done = await python(
            box,
            """
import socket
for port in (1, 22, 53, 80, 111, 443, 1023, 1024, 5432, 32768, 49151, 60999, 65535):
    with socket.create_connection(("ports.example", port), 30) as s:
        assert s.recv(100).split()[-1] == str(port).encode()
""",
        )
    assert done.exit.status == 0, done.errors
    assert len(host.asked) == 13


async def test_servers_of_the_users_own_are_not_disturbed(box: Held) -> None:
    """On every address at ports that are also dialled outside, the name server's included."""
    async with outside(box, tell_what_was_asked):
        done = await python(
            box,
            """
import socket, threading
def serve(listener):
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"own")
listeners = []
for family, address, port in (
    (socket.AF_INET, "0.0.0.0", 443), (socket.AF_INET, "127.0.0.1", 80), (socket.AF_INET6, "::1", 8443),
    (socket.AF_INET, "0.0.0.0", 53), (socket.AF_INET, "198.18.0.1", 9000),
):
    s = socket.socket(family)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((address, port))
    s.listen()
    listeners.append(s)
    threading.Thread(target=serve, args=(s,), daemon=True).start()
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind(("0.0.0.0", 53))
def ask(address, port):
    with socket.create_connection((address, port), 30) as s:
        return s.recv(100).split()[0].decode()
print(ask("127.0.0.1", 443), ask("127.9.9.9", 443), ask("localhost", 443))
print(ask(socket.gethostname(), 443), ask("198.18.0.1", 443))
print(ask("127.0.0.1", 80), ask("::1", 8443), ask("127.0.0.1", 53), ask("198.18.0.1", 9000))
print(ask("out.example", 443), ask("out.example", 80), ask("out.example", 53))
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.sendto(b"hello", ("127.0.0.1", 53))
print(datagrams.recv(100).decode())
""",
            timeout_s=120,
        )
    assert done.output.decode().splitlines() == [
        "own own own",
        "own own",
        "own own own own",
        "out.example out.example out.example",
        "hello",
    ], done.errors


@pytest.fixture(scope="module")
def busybox() -> bytes:
    """A program with a resolver of its own."""
    found = shutil.which("busybox")
    assert found is not None
    return Path(found).read_bytes()


async def test_libraries_and_programs_find_names_in_their_own_ways(
    box: Held, busybox: bytes
) -> None:
    await box.machine.files.write(b"/tmp/busybox", busybox, mode=0o755)
    async with outside(box, tell_what_was_asked) as host:
        script = """
set -e
getent hosts one.example
getent ahostsv4 two.example | head -1
/tmp/busybox nslookup three.example 198.18.0.2 | tail -3
curl -s --http0.9 -m 30 http://four.example/
echo
getent hosts $(getent hosts one.example | cut -d' ' -f1)
! getent ahostsv6 one.example
"""
        done = await shell(box, script, timeout_s=120)
    said = done.output.decode()
    assert done.exit.status == 0, (said, done.errors)
    assert "one.example" in said.splitlines()[0]
    assert "198.18." in said
    assert "four.example" in said
    assert said.splitlines()[-1].split()[1] == "one.example"
    assert [ask.name for ask in host.asked] == ["four.example"]


async def test_questions_are_answered_over_udp_and_tcp_and_odd_ones_do_no_harm(box: Held) -> None:
    async with outside(box, tell_what_was_asked) as host:
        done = await python(
            box,
            """
import os, socket, struct
header = b"\\x12\\x34\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0"
question = header + b"\\7example\\3com\\0\\0\\1\\0\\1"
server = ("198.18.0.2", 53)
def udp(message):
    # A datagram that finds no room is dropped, and asked again by whoever wants an answer.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(5)
        s.connect(server)
        while True:
            s.send(message)
            try:
                return s.recv(512)
            except TimeoutError:
                pass
def tcp(*messages):
    with socket.create_connection(server, 20) as s:
        s.sendall(b"".join(struct.pack("!H", len(message)) + message for message in messages))
        s.shutdown(socket.SHUT_WR)
        answers = b""
        while data := s.recv(4096):
            answers += data
        return answers
first = udp(question)
answers = tcp(question, question)
print(first[-4:] == answers[-4:], len(answers) == 2 * (2 + len(first)), first[3] & 15)
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    for length in (0, 1, 11, 12, 13, 40, 512, 1400, 9000, 60000):
        for _ in range(20):
            s.sendto(os.urandom(length), server)
    for _ in range(500):
        s.sendto(header + os.urandom(40), server)
for odd in (b"\\xff\\xff", b"\\0\\0", b"\\0\\5abc", b""):
    with socket.create_connection(server, 20) as s:
        s.sendall(odd)
        s.shutdown(socket.SHUT_WR)
        assert s.recv(100) == b""
print(udp(question)[-4:] == first[-4:])
streams = []
try:
    for _ in range(100):
        streams.append(socket.create_connection(server, 20))
except OSError:
    pass
for s in streams:
    s.close()
while True:
    try:
        if tcp(question):
            break
    except ConnectionError:
        pass
print("again")
""",
            timeout_s=200,
        )
    assert done.output.decode().splitlines() == ["True True 0", "True", "again"], done.errors
    assert host.asked == []


async def test_a_flood_of_names_forgets_old_ones_and_never_swaps_two(box: Held) -> None:
    """A program that kept the address of a forgotten name finds nobody there, not somebody else."""

    async def hold_open(stream: ByteStream, ask: Ask) -> None:
        await stream.write(ask.name.encode())
        while await stream.read():
            await stream.write(ask.name.encode())

    async with outside(box, hold_open):
        done = await python(
            box,
            """
import socket
def address(name):
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    s.send(b"\\0\\0\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0" + labels + b"\\0\\0\\1\\0\\1")
    return s.recv(512)[-4:]
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(("198.18.0.2", 53))
s.settimeout(20)
held = socket.create_connection(("held.example", 80), 20)
print(held.recv(100).decode())
forgotten = socket.inet_ntoa(address("forgotten.example"))
seen = {address(f"n{i}.example") for i in range(9000)}
print(len(seen))
held.sendall(b"?")
print(held.recv(100).decode(), socket.gethostbyname("held.example") == held.getpeername()[0])
try:
    print(socket.create_connection((forgotten, 80), 20).recv(100))
except ConnectionError:
    print("nobody")
""",
            timeout_s=200,
        )
    assert done.output.decode().splitlines() == [
        "held.example",
        "9000",
        "held.example True",
        "nobody",
    ], done.errors


async def test_either_side_may_end_its_half_first(box: Held) -> None:
    async def read_all_then_answer(stream: ByteStream, ask: Ask) -> None:
        received = b""
        while data := await stream.read():
            received += data
        await stream.write(f"{len(received)} bytes".encode())
        await stream.close_write()

    async def end_then_read_all(stream: ByteStream, ask: Ask) -> None:
        await stream.write(b"that is all")
        await stream.close_write()
        received = b""
        while data := await stream.read():
            received += data
        lengths.append(len(received))

    program = """
import socket
with socket.create_connection(("half.example", 80), 20) as s:
    if %s:
        print(b"".join(iter(lambda: s.recv(4096), b"")).decode())
        s.sendall(bytes(300_000))
    else:
        s.sendall(bytes(300_000))
        s.shutdown(socket.SHUT_WR)
        print(b"".join(iter(lambda: s.recv(4096), b"")).decode())
"""
    lengths: list[int] = []
    async with outside(box, read_all_then_answer) as host:
        done = await python(box, program % "False")
        assert done.output == b"300000 bytes\n", done.errors
    async with outside(box, end_then_read_all) as host:
        done = await python(box, program % "True")
        assert done.output == b"that is all\n", done.errors
        await until(lambda: lengths == [300_000])
    assert host.failures == []


async def test_resets_go_both_ways(box: Held) -> None:
    ends: list[str] = []

    async def abort_after_a_word(stream: ByteStream, ask: Ask) -> None:
        await stream.read()
        await stream.abort()

    async def read_until_reset(stream: ByteStream, ask: Ask) -> None:
        try:
            while await stream.read():
                pass
            ends.append("ended")
        except ConnectionResetError:
            ends.append("reset")

    async def write_until_reset(stream: ByteStream, ask: Ask) -> None:
        try:
            while True:
                await stream.write(bytes(1000))
        except ConnectionResetError:
            ends.append("reset")

    async with outside(box, abort_after_a_word):
        done = await python(
            box,
            """
import socket
with socket.create_connection(("a.example", 80), 20) as s:
    s.sendall(b"word")
    try:
        print(s.recv(100))
    except ConnectionResetError:
        print("reset")
""",
        )
        assert done.output == b"reset\n", done.errors
    reset = """
import socket, struct
with socket.create_connection(("a.example", 80), 20) as s:
    s.sendall(b"word")
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
"""
    for answer in (read_until_reset, write_until_reset):
        ends.clear()
        async with outside(box, answer):
            assert (await python(box, reset)).exit.status == 0
            await until(lambda: ends == ["reset"])


async def test_what_was_written_before_a_close_still_arrives(box: Held) -> None:
    content = os.urandom(200_000)

    async def write_and_close(stream: ByteStream, ask: Ask) -> None:
        await stream.write(content)
        await stream.close()

    async with outside(box, write_and_close):
        done = await python(
            box,
            """
import hashlib, socket, time
with socket.create_connection(("a.example", 80), 20) as s:
    time.sleep(0.5)
    print(hashlib.sha256(b"".join(iter(lambda: s.recv(100), b""))).hexdigest())
""",
            timeout_s=120,
        )
    assert done.output.decode().strip() == hashlib.sha256(content).hexdigest(), done.errors


async def test_two_hundred_connections_at_once(box: Held) -> None:
    async with outside(box, echo) as host:
        done = await python(
            box,
            """
import hashlib, os, selectors, socket
waiting = selectors.DefaultSelector()
for number in range(200):
    s = socket.create_connection((f"n{number}.example", 80), 60)
    waiting.register(s, selectors.EVENT_READ, [os.urandom(20_000 + number), b""])
for key in list(waiting.get_map().values()):
    key.fileobj.sendall(key.data[0])
    key.fileobj.shutdown(socket.SHUT_WR)
good = 0
while waiting.get_map():
    for key, _ in waiting.select():
        data = key.fileobj.recv(65536)
        key.data[1] += data
        if not data:
            good += key.data[0] == key.data[1]
            waiting.unregister(key.fileobj)
            key.fileobj.close()
print(good)
""",
            timeout_s=250,
        )
        assert done.output == b"200\n", done.errors
        assert len({ask.name for ask in host.asked}) == 200
        assert host.failures == []


@pytest.mark.parametrize("way", ["in", "out"])
async def test_a_hundred_megabytes_arrive_as_they_were(box: Held, way: str) -> None:
    piece = os.urandom(1 << 20)
    wanted = hashlib.sha256(piece * 100).hexdigest()
    found: list[str] = []

    async def pour(stream: ByteStream, ask: Ask) -> None:
        for _ in range(100):
            await stream.write(piece)
        await stream.close()

    async def drink(stream: ByteStream, ask: Ask) -> None:
        digest = hashlib.sha256()
        while data := await stream.read():
            digest.update(data)
        found.append(digest.hexdigest())
        await stream.close()

    if way == "in":
        async with outside(box, pour):
            done = await python(
                box,
                """
import hashlib, socket
with socket.create_connection(("big.example", 80), 60) as s:
    digest = hashlib.sha256()
    while data := s.recv(262144):
        digest.update(data)
print(digest.hexdigest())
""",
                timeout_s=250,
            )
            assert done.output.decode().split() == [wanted], done.errors
        return
    await box.machine.files.write(b"/tmp/piece", piece)
    async with outside(box, drink):
        done = await python(
            box,
            """
import socket
with socket.create_connection(("big.example", 80), 60) as s:
    piece = open("/tmp/piece", "rb").read()
    for _ in range(100):
        s.sendall(piece)
    s.shutdown(socket.SHUT_WR)
    s.recv(1)
""",
            timeout_s=250,
        )
        assert done.exit.status == 0, done.errors
    assert found == [wanted]


async def test_a_slow_reader_stalls_only_itself(box: Held) -> None:
    """Hundreds of programs that read nothing, each with a host that writes: commands and others go on."""
    started = asyncio.Event()

    async def pour(stream: ByteStream, ask: Ask) -> None:
        if ask.name == "quick.example":
            await tell_what_was_asked(stream, ask)
            return
        started.set()
        while True:
            await stream.write(bytes(65536))

    async with outside(box, pour) as host:
        stuck = await box.machine.start(
            Command(
                argv=[
                    b"python3",
                    b"-c",
                    b"import socket, time\n"
                    b"kept = [socket.create_connection(('slow.example', 80), 60) for _ in range(150)]\n"
                    b"time.sleep(600)",
                ]
            )
        )
        try:
            await until(lambda: len(host.asked) == 150)
            await started.wait()
            done = await python(
                box,
                "import socket; print(socket.create_connection(('quick.example', 80), 60).recv(100).decode())",
            )
            assert done.output.startswith(b"quick.example"), done.errors
            stats = await box.machine.stats()
            assert stats.memory_available > 32 << 20
        finally:
            await stuck.forget()


async def test_a_thousand_short_connections_leave_nothing_behind(box: Held) -> None:
    table = "awk '/^TCP:/ { print $3 }' /proc/net/sockstat"
    before = int((await shell(box, table)).output)
    async with outside(box, tell_what_was_asked) as host:
        done = await python(
            box,
            """
import socket
for number in range(1000):
    with socket.create_connection((f"n{number % 7}.example", 80), 60) as s:
        if number % 3 == 0:
            assert s.recv(100)
""",
            timeout_s=280,
        )
        assert done.exit.status == 0, done.errors
        await until(lambda: len(host.asked) == 1000)

    async def settled() -> bool:
        return int((await shell(box, table)).output) <= before

    await until(settled)


async def test_programs_that_nobody_answers_are_bounded_and_set_free_when_the_network_goes(
    box: Held,
) -> None:
    outlet = await box.machine.outlet()
    waiting = await box.machine.start(
        Command(
            argv=[
                b"python3",
                b"-c",
                b"""
import resource, socket
resource.setrlimit(resource.RLIMIT_NOFILE, (2048, 2048))
kept, ends = [], 0
for _ in range(600):
    s = socket.socket()
    try:
        s.connect(("1.2.3.4", 80))
        kept.append(s)
    except ConnectionResetError:
        ends += 1
print("connected", flush=True)
for s in kept:
    try:
        ends += s.recv(1) == b""
    except ConnectionResetError:
        ends += 1
print(ends, flush=True)
""",
            ],
            timeout_s=250,
        )
    )
    try:
        chunk = await waiting.read()
        assert chunk is not None
        assert chunk.data == b"connected\n"
        await outlet.close()
        said = b""
        while (chunk := await waiting.read()) is not None:
            said += chunk.data
        assert said == b"600\n"
    finally:
        await waiting.forget()


async def test_one_host_listens_at_a_time(box: Held) -> None:
    async with outside(box, tell_what_was_asked):
        with pytest.raises(GuestRefused) as refused:
            await box.machine.outlet()
        assert refused.value.guest_code == "exists"
    async with outside(box, tell_what_was_asked):
        pass


async def test_an_ask_that_is_over_cannot_be_taken(box: Held) -> None:
    ask = Ask(number=4_000_000_000, name="", address="1.2.3.4", port=80)
    async with outside(box) as host:
        with pytest.raises(ConnectionResetError):
            await host.outlet.take(ask)
        await host.outlet.refuse(ask)


@pytest.mark.parametrize(
    "spoiled",
    [
        "rm -f /etc/resolv.conf",
        "echo nameserver 8.8.8.8 > /etc/resolv.conf",
        "mv /etc/resolv.conf /tmp/",
    ],
)
async def test_root_cannot_lose_the_name_server(box: Held, spoiled: str) -> None:
    assert (await shell(box, spoiled)).exit.status != 0
    async with outside(box, tell_what_was_asked):
        assert (await shell(box, "getent hosts example.com")).exit.status == 0
    assert (await shell(box, "cat /etc/resolv.conf", user=USER)).exit.status == 0


async def until(holds: Callable[[], bool] | Callable[[], Awaitable[bool]]) -> None:
    while True:
        outcome = holds()
        if outcome is True or (not isinstance(outcome, bool) and await outcome):
            return
        await asyncio.sleep(0.05)
