"""The HTTP interface of a ClickHouse server over chdb, its engine as a library: clickhouse.py FOLDER PORT.

The URL has query and settings, and the body has the rows, like with a server. A process locks its folder and runs one query at a time.
There are no users, no replicas and no compression.
"""

import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

from chdb import session

# Like exceptionCodeToHTTPStatus.cpp of the server; other exceptions are 500.
STATUSES = {
    400: {6, 7, 16, 25, 26, 27, 36, 38, 41, 44, 53, 62, 72, 117, 321, 376},
    403: {192, 193, 497, 516},
    404: {46, 47, 60, 63, 73, 81, 115},
    501: {48},
    503: {76, 209},
}
# Parameters of the URL that are not settings of the engine.
NO_SETTINGS = {"query", "wait_end_of_query"}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    engine: session.Session
    turn = threading.Lock()

    def do_GET(self):
        self.answer(200, b"Ok.\n")

    def do_POST(self):
        parameters = dict(parse_qsl(urlsplit(self.path).query))
        rows = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            with Handler.turn:
                body = Handler.engine.query(with_settings(parameters) + rows.decode()).bytes()
            self.answer(200, body, {"X-ClickHouse-Summary": "{}"})
        except Exception as error:
            found = re.search(r"Code: (\d+)\. DB::Exception", str(error))
            if found is None:
                raise
            code = int(found[1])
            status = next((status for status, codes in STATUSES.items() if code in codes), 500)
            self.answer(status, f"{error}\n".encode(), {"X-ClickHouse-Exception-Code": found[1]})

    def answer(self, status, body, headers={}):
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **headers}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def with_settings(parameters):
    """A server reads the settings of a query from the URL, the engine reads them from the query, before FORMAT."""
    query = parameters["query"]
    settings = ", ".join(f"{name} = '{value}'" for name, value in parameters.items() if name not in NO_SETTINGS)
    return re.sub(r"\s(FORMAT \w+)\s*$", rf" SETTINGS {settings} \1\n", query) if settings else f"{query}\n"


Handler.engine = session.Session(sys.argv[1])
server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler)
server.daemon_threads = True
print("ready", flush=True)
server.serve_forever()
