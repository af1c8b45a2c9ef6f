# For a Python without SQLite, which starts with this file: a package takes its place.
import sys
try:
    import sqlite3
except ImportError:
    import pysqlite3
    from pysqlite3 import dbapi2
    sys.modules.update({"sqlite3": pysqlite3, "sqlite3.dbapi2": dbapi2})
