"""Runs PyTorch in greenlets of gevent. gevent copies a greenlet's stack away while another greenlet runs."""
from gevent import monkey

monkey.patch_all()
import gevent
import torch

torch.ones(1, device="cuda")


def work(number):
    gevent.sleep(0)
    x = torch.arange(64, device="cuda", dtype=torch.float32) + number
    gevent.sleep(0)
    return (x.softmax(0).cumsum(0) @ x).round().int().item()


jobs = [gevent.spawn(work, number) for number in range(24)]
gevent.joinall(jobs, raise_error=True)
print([job.value for job in jobs])
