"""What calls do in Python, by dotted name.

The words: `network`, `fetch-or-read`, `tell RULE`, `code N`, `load`, `shell`, `argv`, `spawn`, `open`, `show`, and for
files `read|list|write|delete|delete-tree|link-from|mode WHERE`, where WHERE is a place among the arguments or `self`.
"""

from __future__ import annotations

from crucible.agent.risk.names import words_of

_HTTP = words_of("get post put patch delete head options request stream")
_TABLE = {
    "network": [
        *(f"requests.{verb}" for verb in _HTTP),
        *(f"requests.Session().{verb}" for verb in _HTTP),
        *(f"requests.session().{verb}" for verb in _HTTP),
        *(f"httpx.{verb}" for verb in _HTTP),
        *(f"httpx.Client().{verb}" for verb in (*_HTTP, "send")),
        *(f"httpx.AsyncClient().{verb}" for verb in (*_HTTP, "send")),
        *(f"aiohttp.ClientSession().{verb}" for verb in (*_HTTP, "ws_connect")),
        *(
            "aiohttp.request",
            "urllib.request.urlopen",
            "urllib.request.urlretrieve",
            "urllib.urlopen",
        ),
        *("urllib.request.build_opener().open", "urllib2.urlopen", "urllib3.PoolManager().request"),
        *("urllib3.request", "http.client.HTTPConnection", "http.client.HTTPSConnection"),
        *("socket.socket().connect", "socket.socket().connect_ex", "socket.socket().sendto"),
        *(
            "socket.create_connection",
            "socket.gethostbyname",
            "socket.getaddrinfo",
            "asyncio.open_connection",
        ),
        *("smtplib.SMTP", "smtplib.SMTP_SSL", "ftplib.FTP", "ftplib.FTP_TLS", "telnetlib.Telnet"),
        *("poplib.POP3", "imaplib.IMAP4", "imaplib.IMAP4_SSL", "xmlrpc.client.ServerProxy"),
        *(
            "paramiko.SSHClient().connect",
            "paramiko.Transport",
            "fabric.Connection",
            "asyncssh.connect",
        ),
        *("websocket.create_connection", "websockets.connect", "websockets.sync.client.connect"),
        *(
            "boto3.client",
            "boto3.resource",
            "psycopg2.connect",
            "psycopg.connect",
            "pymysql.connect",
        ),
        *("redis.Redis", "pymongo.MongoClient", "dns.resolver.resolve", "pycurl.Curl().perform"),
        *(
            "git.Repo.clone_from",
            "huggingface_hub.snapshot_download",
            "nltk.download",
            "webbrowser.open",
        ),
        *("mysql.connector.connect", "asyncpg.connect", "redis.StrictRedis", "redis.from_url"),
        *("grpc.insecure_channel", "grpc.secure_channel", "elasticsearch.Elasticsearch"),
    ],
    "tell package-install": ["pip.main", "pip._internal.main", "pip._internal.cli.main.main"],
    "fetch-or-read 0": [
        *(
            f"pandas.read_{kind}"
            for kind in words_of("csv json html excel parquet table xml feather")
        ),
        *(
            "polars.read_csv",
            "polars.read_parquet",
            "numpy.loadtxt",
            "numpy.genfromtxt",
            "numpy.load",
        ),
        *(
            "skimage.io.imread",
            "imageio.imread",
            "matplotlib.pyplot.imread",
            "datasets.load_dataset",
        ),
    ],
    "shell": [
        *(
            "os.system",
            "os.popen",
            "subprocess.getoutput",
            "subprocess.getstatusoutput",
            "commands.getoutput",
        ),
        *("asyncio.create_subprocess_shell", "pexpect.spawn", "pexpect.run", "popen2.popen2"),
        *("IPython.get_ipython().system", "get_ipython().system", "get_ipython().getoutput"),
    ],
    "argv": [f"subprocess.{verb}" for verb in words_of("run call check_call check_output Popen")],
    "spawn": [
        *("asyncio.create_subprocess_exec", "os.execv", "os.execve", "os.execvp", "os.execvpe"),
        *("os.execl", "os.execle", "os.execlp", "os.posix_spawn", "os.posix_spawnp"),
    ],
    "spawn; tell interactive-shell": ["pty.spawn"],
    "code 0": [
        "eval",
        "exec",
        "execfile",
        "code.InteractiveInterpreter().runsource",
        "timeit.exec",
    ],
    "load": [
        *(
            "pickle.loads",
            "pickle.load",
            "cPickle.loads",
            "dill.loads",
            "cloudpickle.loads",
            "jsonpickle.decode",
        ),
        *("marshal.loads", "shelve.open", "yaml.unsafe_load"),
    ],
    "tell dynamic-code": ["types.FunctionType", "types.CodeType", "runpy.run_path"],
    "tell native-call": [
        *(
            "ctypes.CDLL",
            "ctypes.cdll.LoadLibrary",
            "ctypes.PyDLL",
            "ctypes.WinDLL",
            "ctypes.memmove",
        ),
        *("ctypes.string_at", "ctypes.cast", "cffi.FFI().dlopen", "mmap.mmap.exec"),
    ],
    "tell capabilities": [
        *(
            "os.setuid",
            "os.setgid",
            "os.seteuid",
            "os.setegid",
            "os.setreuid",
            "os.setresuid",
            "os.setgroups",
        ),
    ],
    "tell namespace": ["os.chroot", "os.unshare", "os.setns"],
    "tell other-process": ["os.ptrace", "psutil.Process().kill", "psutil.process_iter().kill"],
    "tell credential-store": [
        *(
            "keyring.get_password",
            "keyring.get_credential",
            "netrc.netrc",
            "browser_cookie3.chrome",
        ),
        *("spwd.getspnam", "spwd.getspall", "secretstorage.get_default_collection"),
    ],
    "open": [
        "open",
        "io.open",
        "codecs.open",
        "os.open",
        "gzip.open",
        "bz2.open",
        "lzma.open",
        "aiofiles.open",
    ],
    "read 0": [
        *("os.readlink", "linecache.getline", "fileinput.input", "sqlite3.connect"),
        *("PIL.Image.open", "zipfile.ZipFile", "tarfile.open", "dbm.open", "numpy.fromfile"),
        *(f"configparser.{kind}ConfigParser().read" for kind in ("", "Raw", "Safe")),
        *("dotenv.load_dotenv", "dotenv.dotenv_values", "logging.config.fileConfig"),
    ],
    "list 0": ["os.listdir", "os.scandir", "os.walk", "glob.glob", "glob.iglob"],
    "write 0": [
        *(
            "os.mkdir",
            "os.makedirs",
            "os.truncate",
            "os.utime",
            "os.mkfifo",
            "os.chown",
            "shutil.chown",
        ),
        *("matplotlib.pyplot.savefig",),
    ],
    "mode 0": ["os.chmod"],
    "delete 0": ["os.remove", "os.unlink", "os.rmdir", "os.removedirs"],
    "delete-tree 0": ["shutil.rmtree"],
    "read 0; write 1": ["shutil.copy", "shutil.copy2", "shutil.copyfile", "shutil.copytree"],
    "delete 0; write 1": ["shutil.move", "os.rename", "os.replace", "os.renames"],
    "link-from 0; write 1": ["os.symlink", "os.link"],
    "write 1": ["shutil.unpack_archive"],
    "write path": ["tarfile.open().extractall", "zipfile.ZipFile().extractall"],
    "read self": [
        "pathlib.Path().read_text",
        "pathlib.Path().read_bytes",
        "pathlib.Path().readlink",
    ],
    "list self": [f"pathlib.Path().{verb}" for verb in words_of("iterdir glob rglob walk")],
    "write self": [
        f"pathlib.Path().{verb}" for verb in words_of("write_text write_bytes touch mkdir")
    ],
    "mode self": ["pathlib.Path().chmod"],
    "delete self": ["pathlib.Path().unlink", "pathlib.Path().rmdir"],
    "link-from 0; write self": ["pathlib.Path().symlink_to", "pathlib.Path().hardlink_to"],
    "delete self; write 0": ["pathlib.Path().rename", "pathlib.Path().replace"],
    "show": [
        "print",
        "json.dumps",
        "json.dump",
        "pprint.pprint",
        "str",
        "repr",
        "logging.info",
        "logging.debug",
    ],
}
EFFECTS = {name: effect for effect, names in _TABLE.items() for name in names}

# Modules whose members are worth hiding.
POWERFUL = words_of(
    "os posix subprocess pty socket shutil ctypes builtins __builtins__ importlib sys marshal pickle code runpy "
    "multiprocessing signal requests urllib http"
)
DECODERS = {
    **dict.fromkeys(
        ("base64.b64decode", "base64.urlsafe_b64decode", "base64.standard_b64decode"), "base64"
    ),
    **dict.fromkeys(("base64.decodebytes", "base64.decodestring", "binascii.a2b_base64"), "base64"),
    **dict.fromkeys(
        ("bytes.fromhex", "bytearray.fromhex", "binascii.unhexlify", "binascii.a2b_hex"), "hex"
    ),
    **dict.fromkeys(
        ("base64.b85decode", "base64.a85decode", "base64.b32decode", "base64.b16decode"), "other"
    ),
    **dict.fromkeys(
        ("zlib.decompress", "gzip.decompress", "lzma.decompress", "bz2.decompress"), "other"
    ),
    **dict.fromkeys(
        ("cryptography.fernet.Fernet().decrypt", "marshal.loads", "codecs.decode"), "other"
    ),
}
# Calls whose result is a path that is known.
PLACES = {
    "pathlib.Path.home": "~",
    "pathlib.Path.cwd": "/workspace",
    "os.getcwd": "/workspace",
    "tempfile.gettempdir": "/tmp",  # noqa: S108
    "tempfile.mkdtemp": "/tmp/made",  # noqa: S108
    "tempfile.mkstemp": "/tmp/made",  # noqa: S108
}
CONSTANTS = {
    "sys.executable": "python3",
    "os.sep": "/",
    "os.curdir": ".",
    "os.pardir": "..",
    "os.devnull": "/dev/null",
}
# One name for what has several.
CANONICAL = {
    "posix.": "os.",
    "builtins.": "",
    "__builtins__.": "",
    "__builtin__.": "",
    "os.path.os.": "os.",
    "posixpath.": "os.path.",
    "pathlib.PosixPath": "pathlib.Path",
    "urllib.request.request.": "urllib.request.",
}
ESCAPES = frozenset(
    {"__subclasses__", "__globals__", "__builtins__", "__getattribute__", "__code__", "gi_frame"}
)
