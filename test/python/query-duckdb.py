import duckdb, json, sys
connection = duckdb.connect()
for statement in sys.stdin.read().split(";"):
    if statement.strip():
        print(json.dumps(connection.execute(statement).fetchall(), default=str))
