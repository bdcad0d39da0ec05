"""A small server that speaks as vLLM does: OpenAI's completions, /health, and /metrics under vLLM's names.

It says one word a token, of a model called $MODEL, and answers BATCH requests at once; the rest wait. On SIGTERM it takes
nothing new, and ends when all that it has taken is answered.

TOKEN_SECONDS, BATCH   how fast it is
START_SECONDS          it takes so long before it listens
"""

import http.server
import json
import os
import signal
import threading
import time

MODEL = os.environ.get("MODEL", "model")
TOKEN_SECONDS = float(os.environ.get("TOKEN_SECONDS", "0.02"))
BATCH = int(os.environ.get("BATCH", "8"))


class Engine:
    def __init__(self):
        self.free = threading.Semaphore(BATCH)
        self.lock = threading.Lock()
        self.counts = {"num_requests_running": 0, "num_requests_waiting": 0, "request_success_total": 0}

    def count(self, **changes):
        with self.lock:
            for name, change in changes.items():
                self.counts[name] += change

    def generate(self, tokens):
        self.count(num_requests_waiting=1)
        with self.free:
            self.count(num_requests_waiting=-1, num_requests_running=1)
            try:
                for index in range(tokens):
                    time.sleep(TOKEN_SECONDS)
                    yield "%s-%d " % (MODEL, index)
                self.count(request_success_total=1)
            finally:
                self.count(num_requests_running=-1)

    def metrics(self):
        with self.lock:
            values = dict(self.counts, kv_cache_usage_perc=min(1.0, self.counts["num_requests_running"] / BATCH))
        return "".join(
            '# TYPE vllm:%s %s\nvllm:%s{model_name="%s"} %s\n'
            % (name, "counter" if name.endswith("_total") else "gauge", name, MODEL, value)
            for name, value in values.items()
        )


engine = Engine()


class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, body, kind="application/json", status=200):
        data = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        if self.path == "/health":
            self.answer("")
        elif self.path == "/metrics":
            self.answer(engine.metrics(), "text/plain; version=0.0.4")
        elif self.path == "/v1/models":
            self.answer(json.dumps({"object": "list", "data": [{"id": MODEL, "object": "model"}]}))
        else:
            self.answer("{}", status=404)

    def do_POST(self):
        if self.path != "/v1/completions":
            return self.answer("{}", status=404)
        asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        words = engine.generate(int(asked.get("max_tokens", 16)))
        if not asked.get("stream"):
            return self.answer(json.dumps(completion("".join(words))))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for word in words:
            self.wfile.write(b"data: %s\n\n" % json.dumps(completion(word)).encode())
            self.wfile.flush()
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_):
        pass


def completion(text):
    return {"object": "text_completion", "model": MODEL, "choices": [{"index": 0, "text": text, "finish_reason": "length"}]}


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = False  # server_close() waits for them
    request_queue_size = 128


def main():
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    if stop.wait(float(os.environ.get("START_SECONDS", "0"))):
        return
    server = Server(("", int(os.environ.get("PORT", "8000"))), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}).start()
    stop.wait()
    server.shutdown()
    server.server_close()


main()
