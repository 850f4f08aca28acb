"""The tables, a module for each room that has some, all on one MetaData."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from sqlalchemy import MetaData

# Names that do not depend on the database: a migration can refer to what an earlier one made.
metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def all_tables() -> MetaData:
    """With the tables of every room, whichever were loaded before."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
    return metadata
