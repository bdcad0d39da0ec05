"""A training program whose result is known: a chain of hashes, one link a step.

It saves to $STATE/<job>/step-<n> every SAVE_EVERY steps and on SIGTERM, reports by muster_checkpoint, and goes on where
Muster says. What it did is in $STATE/<job>/log, a line an event: "<attempt> start <step>", "<attempt> step <step>",
"<attempt> saved <step>", "<attempt> done <hash>", and from every pod "<attempt> gpus <ids>". Rank 0 trains; other pods
of the job wait until it is done.

STEPS, STEP_SECONDS, SAVE_EVERY   how long, and how often it saves
START_SECONDS                     it takes so long before it is ready (/tmp/ready)
SAVE_SECONDS                      a save takes so long
IGNORE_TERM=1                     SIGTERM is not heard
CRASH_AT, CRASH_TIMES             ends with status 3 when it comes to that step, in so many attempts
"""

import hashlib
import os
import signal
import sys
import time

import muster_checkpoint


def number(name, default):
    return float(os.environ.get(name, default))


attempt = int(os.environ["MUSTER_ATTEMPT"])
folder = os.path.join(os.environ["STATE"], os.environ["MUSTER_JOB"])
told_to_stop = False


def on_term(_signal, _frame):
    global told_to_stop
    told_to_stop = True


def note(*words):
    line = " ".join(str(word) for word in (attempt, *words)) + "\n"
    print(line, end="", flush=True)
    with open(os.path.join(folder, "log"), "a") as log:
        log.write(line)


def save(step, state):
    """Whole or not at all: a file under its name is complete."""
    path = os.path.join(folder, "step-%d" % step)
    time.sleep(number("SAVE_SECONDS", 0))
    with open(path + ".part", "w") as file:
        file.write(state)
        file.flush()
        os.fsync(file.fileno())
    os.rename(path + ".part", path)
    muster_checkpoint.report(step, path)
    note("saved", step)


def main():
    signal.signal(signal.SIGTERM, signal.SIG_IGN if os.environ.get("IGNORE_TERM") else on_term)
    os.makedirs(folder, exist_ok=True)
    time.sleep(number("START_SECONDS", 0))
    open("/tmp/ready", "w").close()
    note("gpus", os.environ.get("NVIDIA_VISIBLE_DEVICES", "none"))
    if os.environ["MUSTER_INDEX"] != "0":
        while not told_to_stop and not os.path.exists(os.path.join(folder, "done")):
            time.sleep(0.05)
        return 143 if told_to_stop else 0
    saved = muster_checkpoint.resume()
    step, state = 0, ""
    if saved:
        with open(saved.uri) as file:
            step, state = saved.step, file.read()
    note("start", step)
    steps, save_every = int(number("STEPS", 100)), int(number("SAVE_EVERY", 20))
    crash_at, crash_times = int(number("CRASH_AT", -1)), int(number("CRASH_TIMES", 1))
    last_saved = step
    while step < steps:
        if told_to_stop:
            if last_saved != step:
                save(step, state)
            return 143
        if step == crash_at and attempt <= crash_times:
            return 3
        time.sleep(number("STEP_SECONDS", 0.05))
        state = hashlib.sha256(("%s %d" % (state, step)).encode()).hexdigest()
        step += 1
        note("step", step)
        if step % save_every == 0 and step < steps:
            save(step, state)
            last_saved = step
    note("done", state)
    open(os.path.join(folder, "done"), "w").close()
    return 0


sys.exit(main())
