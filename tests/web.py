"""What the tests' own web servers share."""

import json
from http.server import BaseHTTPRequestHandler


class JsonHandler(BaseHTTPRequestHandler):
    """Takes and gives JSON, and says nothing on stderr; `take` is what a test makes of a request's body."""

    def do_POST(self):
        self.take(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def take(self, body):
        raise NotImplementedError

    def reply(self, status, value):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_arguments):
        pass
