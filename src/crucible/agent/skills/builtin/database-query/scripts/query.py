"""Asks the database that standard input (JSON: database, query, writes, rows) names; without a query, its tables."""

import json
import os
import shutil
import subprocess
import sys

MOST_CELL = 500
ASKING = ("table_info", "table_xinfo", "index_list", "index_info", "foreign_key_list")


def main():
    asked = json.load(sys.stdin)
    database = asked["database"]
    if database.startswith(("postgresql://", "postgres://")):
        ask_postgresql(database, asked)
    else:
        ask_sqlite(database, asked)


def ask_sqlite(path, asked):
    import pathlib
    import sqlite3

    if not os.path.isfile(path):
        sys.exit("there is no file %s" % path)
    mode = "rw" if asked.get("writes") else "ro"
    address = "%s?mode=%s" % (pathlib.Path(path).resolve().as_uri(), mode)
    try:
        connection = sqlite3.connect(address, uri=True, timeout=20)
        if not asked.get("writes"):
            # Attached files and pragmas could write as well.
            connection.execute("PRAGMA query_only = on")
            connection.set_authorizer(only_reads)
        if asked.get("query") is None:
            describe_sqlite(connection)
            return
        cursor = connection.execute(asked["query"])
        show(cursor, asked.get("rows") or 100)
        connection.commit()
    except sqlite3.Error as error:
        sys.exit("SQLite says: %s" % error)


def only_reads(action, first, second, database, trigger):
    import sqlite3

    if action in (sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH):
        return sqlite3.SQLITE_DENY
    # A pragma with a value sets something, unless the value names what is asked about.
    if action == sqlite3.SQLITE_PRAGMA and second is not None and first not in ASKING:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def describe_sqlite(connection):
    names = connection.execute(
        "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%' ORDER BY name"
    ).fetchall()
    for (name,) in names:
        quoted = '"%s"' % name.replace('"', '""')
        columns = connection.execute(
            "SELECT name, type, pk FROM pragma_table_info(?)", (name,)
        ).fetchall()
        told = ", ".join("%s %s%s" % (c, t, " key" if key else "") for c, t, key in columns)
        count = connection.execute("SELECT count(*) FROM " + quoted).fetchone()[0]
        print("%s (%d rows): %s" % (name, count, told))
    if not names:
        print("There are no tables.")


def show(cursor, most):
    if cursor.description is None:
        print("done, %d rows changed" % max(cursor.rowcount, 0))
        return
    print("\t".join(str(column[0]) for column in cursor.description))
    rows = cursor.fetchmany(most + 1)
    for row in rows[:most]:
        print("\t".join(cell(value) for value in row))
    print("(%s%d rows)" % ("first " if len(rows) > most else "", min(len(rows), most)))


def cell(value):
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return "%d bytes" % len(value)
    return str(value).replace("\t", " ").replace("\n", " ")[:MOST_CELL]


def ask_postgresql(address, asked):
    if shutil.which("psql") is None:
        sys.exit("this sandbox has no psql, which PostgreSQL needs; choose an image that has it")
    environment = dict(os.environ, PGCONNECT_TIMEOUT="20")
    if not asked.get("writes"):
        environment["PGOPTIONS"] = "-c default_transaction_read_only=on"
    query = asked.get("query")
    words = ["psql", "--no-psqlrc", "--no-password", "-v", "ON_ERROR_STOP=1", "-P", "pager=off"]
    # A statement that begins with a backslash would be a command to psql itself.
    if query is None:
        words += ["-c", "\\d"]
    elif query.lstrip().startswith("\\"):
        sys.exit("only SQL statements can be run")
    else:
        words += ["-c", query]
    done = subprocess.run([*words, "--", address], env=environment, stdin=subprocess.DEVNULL)
    sys.exit(done.returncode)


main()
