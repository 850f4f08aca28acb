"""The small programs with which files are worked on inside: a shell and GNU's tools, which every template has.

How one ends says what stood in its way; `CODES` has the words for it.
"""

from __future__ import annotations

from typing import Final

CODES: Final = {
    41: "not-found",
    42: "not-a-directory",
    43: "is-a-directory",
    44: "exists",
    45: "permission",
    46: "not-empty",
    47: "no-space",
    48: "bad-request",
    49: "unsafe-archive",
}

_COMMON: Final = r"""
p=$1
missing() {
  d=$1
  while d=${d%/*}; do [ -n "$d" ] || d=/; [ ! -e "$d" ] || break; done
  [ -d "$d" ] || exit 42
  exit 41
}
there() { [ -e "$1" ] || [ -L "$1" ] || missing "$1"; }
own() { [ -z "$2" ] || chown -h -- "$2" "$1" || exit 45; }
"""

# Fields that end with NUL, eight for each entry.
_FIELDS: Final = r"'%y\0%m\0%s\0%T@\0%U\0%G\0%l\0%P\0'"
FIELDS: Final = 8

STAT: Final = f'{_COMMON}there "$p"\nexec find $2 "$p" -maxdepth 0 -printf {_FIELDS}\n'
LIST: Final = (
    f'{_COMMON}there "$p"\n[ -d "$p" ] || exit 42\n'
    f'exec find -H "$p" -mindepth 1 -maxdepth 1 -printf {_FIELDS}\n'
)
TREE: Final = (
    f'{_COMMON}there "$p"\n[ -d "$p" ] || exit 42\n'
    f'exec find -H "$p" -mindepth 1 -printf {_FIELDS}\n'
)
DIGESTS: Final = 'cd -- "$1" && find . -type f -print0 | xargs -0 -r sha256sum -z --\n'

# Path, first byte from one, number of bytes or 0.
READ: Final = f"""{_COMMON}there "$p"
[ ! -d "$p" ] || exit 43
[ -f "$p" ] || exit 48
[ -r "$p" ] || exit 45
if [ "$3" != 0 ]; then tail -c "+$2" -- "$p" | head -c "$3"
elif [ "$2" != 1 ]; then exec tail -c "+$2" -- "$p"
else exec cat -- "$p"; fi
"""

# Path, mode, owner, 1 to append, 1 to make parents.
WRITE: Final = f"""{_COMMON}[ ! -d "$p" ] || exit 43
d=${{p%/*}}; [ -n "$d" ] || d=/
[ "$5" = 0 ] || mkdir -p -- "$d" 2>/dev/null || exit 45
[ -d "$d" ] || missing "$p"
if [ "$4" = 1 ]; then cat >>"$p" || exit 47; else cat >"$p" || exit 47; fi
[ -z "$3" ] || chown -- "$3" "$p" || exit 45
chmod -- "$2" "$p" || exit 45
"""

# Path, mode, owner, 1 to make parents.
MKDIR: Final = f"""{_COMMON}if [ "$4" = 1 ]; then
  [ ! -d "$p" ] || exit 0
  mkdir -p -- "$p" 2>/dev/null || exit 42
else
  [ ! -e "$p" ] || exit 44
  d=${{p%/*}}; [ -d "${{d:-/}}" ] || missing "$p"
  mkdir -- "$p" || exit 45
fi
own "$p" "$3"
chmod -- "$2" "$p" || exit 45
"""

# Path, 1 for all that is below.
REMOVE: Final = f"""{_COMMON}there "$p"
if [ "$2" = 1 ]; then rm -rf -- "$p" || exit 45
elif [ -d "$p" ] && [ ! -L "$p" ]; then rmdir -- "$p" 2>/dev/null || exit 46
else rm -f -- "$p" || exit 45; fi
"""

RENAME: Final = f"""{_COMMON}there "$p"
d=${{2%/*}}; [ -d "${{d:-/}}" ] || missing "$2"
mv -T -- "$p" "$2" || exit 45
"""

# Root of it, then the names.
TAR_OUT: Final = f"""{_COMMON}there "$p"
[ -d "$p" ] || exit 42
shift
exec tar -C "$p" --format=pax -cf - -- "$@"
"""

# Root of it, owner. The names that were made are told.
TAR_IN: Final = f"""{_COMMON}there "$p"
[ -d "$p" ] || exit 42
t=$(mktemp) || exit 47
trap 'rm -f -- "$t"' EXIT
tar -C "$p" --no-same-owner -xpvf - >"$t" 2>"$t.e" || {{
  grep -q "contains '..'" "$t.e" && c=49 || c=48; rm -f -- "$t.e"; exit $c
}}
rm -f -- "$t.e"
[ -z "$2" ] || (cd -- "$p" && tr '\\n' '\\0' <"$t" | xargs -0 -r chown -h -- "$2") || exit 45
wc -l <"$t"
"""
