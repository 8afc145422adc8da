"""A gevent server. Greenlets serve requests, and each greenlet loads a kernel at another depth of its stack."""
from gevent import monkey

monkey.patch_all()

import random

import gevent
import gevent.pool

import cuda

REQUESTS = 100
driver = cuda.start()
random.seed(1)
served = []


def serve(request, depth):
    if depth:
        return sorted([0], key=lambda _: serve(request, depth - 1))
    gevent.sleep(random.random() * 0.005)
    cuda.run_new_kernel(driver, f"request_{request}")
    served.append(request)


pool = gevent.pool.Pool(20)
for request in range(REQUESTS):
    pool.spawn(serve, request, random.randrange(6))
pool.join()
print("served", sorted(served) == list(range(REQUESTS)))
