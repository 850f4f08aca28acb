"""What calls do in JavaScript and TypeScript, by dotted name; the words are those of `python_names`."""

from __future__ import annotations

from crucible.agent.risk.names import words_of

_HTTP = words_of("get post put patch delete head options request")
_TABLE = {
    "network": [
        *("fetch", "WebSocket", "EventSource", "XMLHttpRequest().open", "navigator.sendBeacon"),
        *("http.get", "http.request", "https.get", "https.request", "http2.connect"),
        *("net.connect", "net.createConnection", "net.Socket().connect", "tls.connect"),
        *(
            "dgram.createSocket().send",
            "dns.lookup",
            "dns.resolve",
            "dns.resolve4",
            "dns.resolveTxt",
        ),
        *(
            "axios",
            "got",
            "node-fetch",
            "undici.fetch",
            "undici.request",
            "superagent.get",
            "ky",
            "needle",
        ),
        *(f"axios.{verb}" for verb in _HTTP),
        *(f"axios.create().{verb}" for verb in _HTTP),
        *(f"got.{verb}" for verb in _HTTP),
        *(f"ky.{verb}" for verb in _HTTP),
        *(f"request.{verb}" for verb in _HTTP),
        *(
            "request",
            "ws",
            "socket.io-client",
            "socket.io-client.io",
            "ssh2.Client().connect",
            "pg.Client",
        ),
        *("nodemailer.createTransport", "Deno.connect", "importScripts"),
    ],
    "shell": [
        "child_process.exec",
        "child_process.execSync",
        "shelljs.exec",
        "execa.command",
        "execa.execaCommand",
    ],
    "spawn": [
        *(
            "child_process.spawn",
            "child_process.spawnSync",
            "child_process.execFile",
            "child_process.execFileSync",
        ),
        *("execa", "execa.execa", "cross-spawn", "Deno.Command", "Bun.spawn", "node-pty.spawn"),
    ],
    "code 0": [
        *("eval", "vm.runInThisContext", "vm.runInNewContext", "vm.runInContext", "vm.Script"),
        *("vm.compileFunction", "vm2.VM().run", "execScript"),
    ],
    "tell native-call": [
        *(
            "process.binding",
            "process.dlopen",
            "process._linkedBinding",
            "ffi-napi.Library",
            "Deno.dlopen",
        ),
        *("WebAssembly.instantiate", "koffi.load"),
    ],
    "tell capabilities": [
        *(
            "process.setuid",
            "process.setgid",
            "process.seteuid",
            "process.setegid",
            "process.setgroups",
        ),
    ],
    "tell credential-store": ["keytar.getPassword", "keytar.findCredentials"],
    "show": [
        "console.log",
        "console.error",
        "console.info",
        "JSON.stringify",
        "String",
        "util.inspect",
    ],
    "read 0": [
        *(
            f"fs.{verb}"
            for verb in ("readFile", "readFileSync", "createReadStream", "readlink", "readlinkSync")
        ),
        *("Deno.readFile", "Deno.readTextFile", "Bun.file"),
    ],
    "list 0": [
        f"fs.{verb}" for verb in ("readdir", "readdirSync", "opendir", "opendirSync", "watch")
    ],
    "write 0": [
        *(f"fs.{verb}" for verb in ("writeFile", "writeFileSync", "appendFile", "appendFileSync")),
        *(
            f"fs.{verb}"
            for verb in ("createWriteStream", "mkdir", "mkdirSync", "truncate", "truncateSync")
        ),
        *(f"fs.{verb}" for verb in ("chown", "chownSync", "utimes", "utimesSync")),
        *(
            "Deno.writeFile",
            "Deno.writeTextFile",
            "Bun.write",
            "fs-extra.outputFile",
            "fs-extra.ensureDir",
        ),
    ],
    "open": ["fs.open", "fs.openSync"],
    "mode 0": ["fs.chmod", "fs.chmodSync"],
    "delete 0": ["fs.unlink", "fs.unlinkSync", "fs.rmdir", "fs.rmdirSync"],
    "delete-tree 0": [
        "fs.rm",
        "fs.rmSync",
        "rimraf",
        "rimraf.sync",
        "rimraf.rimraf",
        "fs-extra.remove",
        "Deno.remove",
    ],
    "read 0; write 1": ["fs.copyFile", "fs.copyFileSync", "fs.cp", "fs.cpSync", "fs-extra.copy"],
    "delete 0; write 1": ["fs.rename", "fs.renameSync"],
    "link-from 0; write 1": ["fs.symlink", "fs.symlinkSync", "fs.link", "fs.linkSync"],
}
EFFECTS = {name: effect for effect, names in _TABLE.items() for name in names}

POWERFUL = frozenset(
    {"child_process", "fs", "net", "http", "https", "vm", "dgram", "tls", "worker_threads", "os"}
)
GLOBALS = frozenset({"globalThis", "window", "global", "self", "top", "frames", "this"})
CONSTANTS = {
    "__dirname": "/workspace",
    "__filename": "/workspace/program.js",
    "process.execPath": "node",
    "path.sep": "/",
    "import.meta.dirname": "/workspace",
}
PLACES = {"os.homedir": "~", "os.tmpdir": "/tmp", "process.cwd": "/workspace"}  # noqa: S108
HIDEABLE = frozenset(
    {"eval", "Function", "require", "process", "execScript", "fetch", "importScripts"}
)
TIMERS = frozenset({"setTimeout", "setInterval", "setImmediate"})
