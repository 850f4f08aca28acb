# Reads JSON (language, code, input) from standard input and runs the program. To take JSON apart it needs one of the
# languages itself: python3, node or perl, whichever is there.
set -u
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cat >"$work/asked.json"
if command -v python3 >/dev/null 2>&1; then
    python3 -c '
import json, sys
asked = json.load(open(sys.argv[1] + "/asked.json"))
for name in ("language", "code", "input"):
    open(sys.argv[1] + "/" + name, "w", encoding="utf-8", errors="surrogatepass").write(asked.get(name) or "")
' "$work" || exit 1
elif command -v node >/dev/null 2>&1; then
    node -e '
const fs = require("fs"), work = process.argv[1], asked = JSON.parse(fs.readFileSync(work + "/asked.json"));
for (const name of ["language", "code", "input"]) fs.writeFileSync(work + "/" + name, asked[name] || "");
' "$work" || exit 1
elif command -v perl >/dev/null 2>&1; then
    perl -MJSON::PP -e '
my $work = shift; local $/; open my $in, "<", "$work/asked.json"; my $asked = decode_json(<$in>);
for my $name (qw(language code input)) { open my $out, ">:utf8", "$work/$name"; print $out $asked->{$name} // ""; }
' "$work" || exit 1
else
    echo "This sandbox has neither python3 nor node nor perl, one of which is needed to take a program" >&2
    exit 127
fi
language=$(cat "$work/language")

need() {
    command -v "$1" >/dev/null 2>&1 && return
    echo "This sandbox has no $1, so $language cannot be run. Choose an image that has it." >&2
    exit 127
}
# Programs know themselves by a name that fits their language.
file() { mv "$work/code" "$work/$1" && program="$work/$1"; }
# A program cannot be replaced by exec: what it left must be removed.
go_on() { "$@" <"$work/input"; exit $?; }

case $language in
    python) need python3; file main.py; go_on python3 "$program" ;;
    javascript) need node; file main.js; go_on node "$program" ;;
    typescript) need tsx; file main.ts; go_on tsx "$program" ;;
    shell) file main.sh; go_on sh "$program" ;;
    perl) need perl; file main.pl; go_on perl "$program" ;;
    ruby) need ruby; file main.rb; go_on ruby "$program" ;;
    go) need go; file main.go; go_on env GOCACHE="$work/cache" go run "$program" ;;
    c) need cc; file main.c; cc -O1 -o "$work/program" "$program" -lm || exit 1; go_on "$work/program" ;;
    c++) need c++; file main.cpp; c++ -O1 -o "$work/program" "$program" || exit 1; go_on "$work/program" ;;
    rust) need rustc; file main.rs; rustc -O -o "$work/program" "$program" || exit 1; go_on "$work/program" ;;
    java) need java; file Main.java; go_on java "$program" ;;
    php) need php; file main.php; go_on php "$program" ;;
    lua) need lua; file main.lua; go_on lua "$program" ;;
    r) need Rscript; file main.R; go_on Rscript "$program" ;;
    *) echo "There is no language $language" >&2; exit 2 ;;
esac
