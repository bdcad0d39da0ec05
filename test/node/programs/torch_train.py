"""Trains a small network with real PyTorch, data-parallel over gloo, under torchrun or alone.

A step's batch is the same whatever the number of workers, who share it; so is the loss, but for the order of sums. Rank 0
saves to $STATE/<job>/step-<n> every SAVE_EVERY steps, when it is told to end and when its peers have gone, reports by
muster_checkpoint, and notes every step in $STATE/<job>/losses: "<attempt> <workers> <step> <loss>". All go on from the
newest save: after a change of size that is newer than what Muster knows of.

STEPS, STEP_SECONDS, SAVE_EVERY   how long, and how often it saves
"""

import datetime
import glob
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

import muster_checkpoint

STEPS = int(os.environ.get("STEPS", "600"))
STEP_SECONDS = float(os.environ.get("STEP_SECONDS", "0.1"))
SAVE_EVERY = int(os.environ.get("SAVE_EVERY", "50"))
BATCH = 96  # of all workers together: 1, 2, 3 and 4 of them share it evenly
folder = os.path.join(os.environ["STATE"], os.environ["MUSTER_JOB"])
rank, world = 0, 1
told_to_stop = False


def on_term(_signal, _frame):
    global told_to_stop
    told_to_stop = True


def newest():
    paths = glob.glob(os.path.join(folder, "step-*[0-9]"))
    return max(paths, key=lambda path: int(path.rsplit("-", 1)[1]), default=None)


class Training:
    def __init__(self):
        torch.manual_seed(1)
        self.model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.003)
        self.step = self.saved = 0

    def load(self):
        """What rank 0 finds, for all: another may look a moment later."""
        found = [newest()]
        if world > 1:
            dist.broadcast_object_list(found, src=0)
        if found[0]:
            state = torch.load(found[0])
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.step = self.saved = state["step"]

    def save(self):
        if rank != 0 or self.saved == self.step:
            return
        path = os.path.join(folder, "step-%d" % self.step)
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "step": self.step}
        torch.save(state, path + ".part")
        os.rename(path + ".part", path)
        muster_checkpoint.report(self.step, path)
        self.saved = self.step

    def advance(self):
        """One step; if a peer goes meanwhile it raises, and nothing has changed."""
        data = torch.randn(BATCH, 8, generator=torch.Generator().manual_seed(self.step))
        mine = data[rank * BATCH // world : (rank + 1) * BATCH // world]
        target = torch.sin(mine.sum(dim=1, keepdim=True))
        self.optimizer.zero_grad()
        loss = nn.functional.mse_loss(self.model(mine), target)
        loss.backward()
        sums = torch.cat([loss.detach().reshape(1)] + [p.grad.reshape(-1) for p in self.model.parameters()])
        if world > 1:
            dist.all_reduce(sums)
        sums /= world
        at = 1
        for parameter in self.model.parameters():
            parameter.grad.copy_(sums[at : at + parameter.numel()].view_as(parameter))
            at += parameter.numel()
        self.optimizer.step()
        self.step += 1
        if rank == 0:
            with open(os.path.join(folder, "losses"), "a") as log:
                log.write("%s %d %d %.9f\n" % (os.environ["MUSTER_ATTEMPT"], world, self.step, sums[0].item()))


def main():
    global rank, world
    signal.signal(signal.SIGTERM, on_term)
    os.makedirs(folder, exist_ok=True)
    torch.set_num_threads(1)
    if "TORCHELASTIC_RUN_ID" in os.environ:
        dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
        rank, world = dist.get_rank(), dist.get_world_size()
    training = Training()
    try:
        training.load()
        open("/tmp/ready", "w").close()
        while training.step < STEPS:
            if told_to_stop:
                training.save()
                return 143
            training.advance()
            if training.step % SAVE_EVERY == 0:
                training.save()
            time.sleep(STEP_SECONDS)
    except RuntimeError as error:  # a peer has gone: torchrun starts those again that stay
        print("rank %d of %d at step %d: %s" % (rank, world, training.step, error), file=sys.stderr)
        training.save()
        return 143 if told_to_stop else 1
    training.save()
    return 0


sys.exit(main())
