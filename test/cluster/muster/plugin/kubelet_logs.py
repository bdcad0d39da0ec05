"""Plays the one part of a kubelet that gives out logs: kubelet_logs.py PORT FOLDER CERTIFICATE KEY

FOLDER/POD has the lines of a pod, each behind its time. A log that is followed ends when FOLDER/POD.ended is there, as
a kubelet's does when the container has ended."""
import http.server
import os
import ssl
import sys
import time
from urllib.parse import parse_qs, urlparse

port, folder, certificate, key = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]


class Kubelet(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        url = urlparse(self.path)
        query = parse_qs(url.query)
        path = os.path.join(folder, url.path.split("/")[3])  # /containerLogs/NAMESPACE/POD/CONTAINER
        self.send_response(200)
        self.end_headers()
        lines = self.read(path)
        if "tailLines" in query:
            lines = lines[len(lines) - int(query["tailLines"][0]):]
        shown = len(self.read(path))
        self.give(lines, query)
        while "follow" in query:
            is_over = os.path.exists(path + ".ended")
            lines = self.read(path)
            self.give(lines[shown:], query)
            shown = len(lines)
            if is_over:
                return
            time.sleep(0.05)

    def read(self, path):
        if not os.path.exists(path):
            return []
        with open(path) as log:
            return log.read().splitlines()

    def give(self, lines, query):
        for line in lines:
            text = line if "timestamps" in query else line.split(" ", 1)[1]
            self.wfile.write((text + "\n").encode())
        self.wfile.flush()

    def log_message(self, *_):
        pass


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Kubelet)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
