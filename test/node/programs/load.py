"""Constant load on a Service, as through a proxy that learns LAG seconds late which addresses are ready. Nothing is retried.

  load.py LIST_OF_ENDPOINT_SLICES CA CERTIFICATE KEY SUMMARY

$WORKERS requests for $TOKENS words are always on their way, every other one a stream. On SIGTERM it lets them end. SUMMARY is written all the
while: {"asked": …, "requests": answered, "by_model": {model: requests}, "lost": [why, …]}.
"""

import collections
import json
import os
import signal
import ssl
import sys
import threading
import time
import urllib.request

LAG = 1.0
WORKERS, TOKENS = int(os.environ["WORKERS"]), int(os.environ["TOKENS"])

addresses = []
lock = threading.Lock()
asked = collections.Counter()
by_model = collections.Counter()
lost = []
stop = threading.Event()


def watch(url, ca, certificate, key):
    context = ssl.create_default_context(cafile=ca)
    context.load_cert_chain(certificate, key)
    while not stop.is_set():
        with urllib.request.urlopen(url, context=context, timeout=10) as answer:
            slices = json.load(answer)["items"]
        addresses[:] = [
            "%s:%d" % (endpoint["addresses"][0], part["ports"][0]["port"])
            for part in slices
            for endpoint in part.get("endpoints") or []
            if endpoint["conditions"].get("ready")
        ]
        stop.wait(LAG)


def ask(address, stream):
    """The model that has answered; raises whatever is wrong with the answer."""
    body = json.dumps({"prompt": "say", "max_tokens": TOKENS, "stream": stream}).encode()
    request = urllib.request.Request("http://%s/v1/completions" % address, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        text = answer.read().decode()
    if not stream:
        said = [json.loads(text)]
    else:
        lines = [line[len("data: "):] for line in text.splitlines() if line]
        if lines[-1:] != ["[DONE]"]:
            raise ValueError("a stream that breaks off after %d words" % len(lines))
        said = [json.loads(line) for line in lines[:-1]]
    words = "".join(part["choices"][0]["text"] for part in said).split()
    if len(words) != TOKENS:
        raise ValueError("%d words of %d" % (len(words), TOKENS))
    return said[0]["model"]


def work(number):
    turn = number
    while not stop.is_set():
        turn += 1
        known = list(addresses)
        address = known[turn % len(known)] if known else "no address"
        with lock:
            asked[address] += 1
        try:
            model = ask(address, stream=turn % 2 == 0)
            with lock:
                by_model[model] += 1
        except Exception as error:  # whatever it is, somebody got no answer
            with lock:
                lost.append("%s %s: %s" % (time.strftime("%H:%M:%S"), address, error))
            stop.wait(0.2)


def summarize(path):
    with lock:
        summary = {"asked": sum(asked.values()), "requests": sum(by_model.values()), "by_model": by_model, "lost": lost}
        with open(path + ".part", "w") as file:
            json.dump(summary, file)
    os.rename(path + ".part", path)


def main():
    *server, path = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    threading.Thread(target=watch, args=server, daemon=True).start()
    while not addresses and not stop.is_set():
        time.sleep(0.05)
    workers = [threading.Thread(target=work, args=(number,)) for number in range(WORKERS)]
    for worker in workers:
        worker.start()
    while not stop.wait(0.2):
        summarize(path)
    for worker in workers:
        worker.join()
    summarize(path)


main()
