"""Tells Muster what is saved, and a program where to go on. Copy this file beside your program, or into your image.

It needs Python's standard library and nothing else. Outside a cluster report() does nothing and resume() is None.

    import muster_checkpoint

    saved = muster_checkpoint.resume()        # None: start from the beginning
    step = saved.step if saved else 0         # saved.uri: what you named it when you reported it
    ...
    save(path)                                # whole, and on storage that outlives the pod
    muster_checkpoint.report(step, path)      # only then; in one process of the job

On SIGTERM: save, report, and end with a status that is not 0. There is checkpoint.gracePeriod for it.
"""

import collections
import json
import os

TERMINATION_LOG = "/dev/termination-log"  # a container's terminationMessagePath; this is the default
Checkpoint = collections.namedtuple("Checkpoint", "step uri")


def resume():
    """The checkpoint from which this attempt is to go on; None if there is none."""
    step = os.environ.get("MUSTER_RESUME_STEP")
    return None if step is None else Checkpoint(int(step), os.environ.get("MUSTER_RESUME_URI", ""))


def report(step, uri, path=TERMINATION_LOG):
    """Says that all up to `step` is saved at `uri`. After each save: the last report counts, however the program ends."""
    line = json.dumps({"checkpoint": {"step": step, "uri": uri}}).encode() + b"\n"
    try:
        log = os.open(path, os.O_WRONLY)  # the kubelet's file; it cannot be replaced, only written
    except OSError:
        return
    try:
        os.write(log, line)
        os.ftruncate(log, len(line))
    finally:
        os.close(log)
