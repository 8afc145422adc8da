"""What programs share that answer requests: each prints digests of its answers, and the milliseconds of each to standard error. With REHEARSE=1
they rehearse before."""
import hashlib
import json
import os
import sys
import time

import torch


def answer(request, of):
    """Answers one request after another, and prints what each returned."""
    if os.environ.get("REHEARSE"):
        import kernel_audit

        for step in kernel_audit.rehearse().wait():
            print(*step[:2], f"{1000 * step.seconds:.0f} ms", step.error or "", file=sys.stderr)
    took = []
    for arguments in of:
        torch.manual_seed(7)
        torch.cuda.synchronize()
        begun = time.perf_counter()
        answers = request(*arguments)
        torch.cuda.synchronize()
        took.append(round(1000 * (time.perf_counter() - begun), 1))
        digest = hashlib.sha256()
        for tensor in answers:
            digest.update(tensor.detach().float().cpu().numpy().tobytes())
        print(*arguments, digest.hexdigest()[:16], all(bool(tensor.isfinite().all()) for tensor in answers))
    print(json.dumps({"requests_ms": took}), file=sys.stderr)
