"""Records what programs load late, and preloads that in their next run."""
import importlib.util
import json
import statistics
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
FIRST_USES = [sys.executable, str(HERE / "first_uses.py")]
# Everything after the context counts as late.
READY = ["--ready-after", "0.001", "--slow", "1000"]
# Programs with greenlets or with child processes, and the command that starts each.
AROUND = {
    "greenlet_ops": [sys.executable],
    "worker_ops": [sys.executable],
    "launched_ops": [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"],
}


def findings(processes, *kinds):
    found = [event for process in processes for event in process["events"] if event["finding"]]
    return [event for event in found if not kinds or event["kind"] in kinds]


def loads(processes):
    return findings(processes, "load", "image", "resize")


def numbers(err):
    """Returns the times and the memory that `first_uses.py` prints."""
    return json.loads([line for line in err.splitlines() if line.startswith('{"start_ms"')][-1])


def program(audited, report, folder, name, command):
    file = str(folder / f"{name}.preload")
    code, out, err, first = audited(command, *READY, "--record", file)
    again, same, err2, second = audited(command, *READY, "--preload", file)
    before, left = loads(first), loads(second)
    preloaded = [event for process in second for event in process["preloaded"]]
    failed = [event for event in preloaded if event["result"]]
    took = sum(event["took_ms"] for event in preloaded)
    images = f"{len(list(Path(file + '.images').glob('*')))} copied images"
    good = out == same and again in (0, 12) and len(before) > 0 and not failed and not left
    words = f"{len(before)} late loads, then {len(left)}; {len(preloaded)} preloaded in {took:.0f} ms, {len(failed)} not; {images}"
    report(f"preload {name}", good, words, before=before, left=left, failed=failed)
    for event in (left + failed)[:12]:
        print(f"    {event['kind']} {event['call']} {str(event['subject'])[:120]} {event['library']} {event['reason'][:200]}")
    if out != same or again not in (0, 12):
        print(f"  exit codes {code} and {again}\n{out}{same}{err2[-1500:]}")


def first_uses(audited, execute, report, folder):
    """Reports time and memory of the first uses, and which of them wait for a resident kernel."""
    file = str(folder / "first_uses.preload")
    def plain(*options, **more):
        _, out, err = execute([*FIRST_USES, *options], CUDA_CACHE_DISABLE="0", **more)
        return out, numbers(err)
    plain()
    out, lazy = plain()
    _, eager = plain(CUDA_MODULE_LOADING="EAGER")
    _, warm = plain("--warm")
    _, recorded, err, first = audited(FIRST_USES, "--record", file)
    runs = [audited(FIRST_USES, "--preload", file) for _ in range(3)]
    late = [len(loads(processes)) for *_, processes in runs]
    pre = [numbers(err) for _, _, err, _ in runs]
    same = all(text == out for _, text, _, _ in runs) and recorded == out
    for words, of in [("LAZY", lazy), ("EAGER", eager), ("warmed by hand", warm), ("preloaded", pre[-1])]:
        print(f"    {words}: start {of['start_ms']} ms, first uses {of['first_ms']} ms, {of['used_mib']} MiB; {of['times']}")
    quick = [name for name in lazy["times"] if name != "matmul"]
    sums = [sum(run["times"][name] for name in quick) for run in pre]
    ratio = statistics.median(sums) / sum(eager["times"][name] for name in quick)
    good = same and max(late) == 0 and pre[-1]["used_mib"] <= 1.05 * lazy["used_mib"]
    report("preload first uses", good, f"{len(loads(first))} late loads, then {late}; without the matrix product {ratio:.2f} x EAGER", lazy=lazy, eager=eager, warm=warm, preloaded=pre)

    _, cold = plain("--beside")
    _, eager = plain("--beside", CUDA_MODULE_LOADING="EAGER")
    runs = [numbers(audited([*FIRST_USES, "--beside"], "--hang-after", "5", "--preload", file)[2]) for _ in range(3)]
    waited = [run["waited"] for run in runs]
    words = f"waited: LAZY {len(cold['waited'])} of {len(cold['times'])}, EAGER {eager['waited']}, preloaded {waited}"
    report("preload beside", len(cold["waited"]) == len(cold["times"]) and not any(waited), words, runs=runs)


def ranks(audited, report, folder):
    """Runs two processes on one device, which hang without the preload."""
    file = str(folder / "ranks.preload")
    command = [sys.executable, str(HERE / "ranks.py"), "3"]
    _, out, err, _ = audited(command, "--hang-after", "1", "--record", file)
    explained = "HANG across 2 processes: rank 1 cannot go on" in err
    code, again, err2, second = audited(command, "--preload", file)
    left, said = loads(second), sorted(again.splitlines())
    good = "rank 1 gave up" in out and explained and said == ["rank 0 done", "rank 1 done"] and not left
    report("preload ranks", good, f"explained: {explained}; then {said}, exit code {code}, {len(left)} late loads")
    if not good:
        print(out, err[-3000:], err2[-3000:])


def run(programs, audited, execute, report):
    folder = Path(tempfile.mkdtemp(prefix="preload-"))
    ranks(audited, report, folder)
    first_uses(audited, execute, report, folder)
    for name, command in programs:
        program(audited, report, folder, name, command)


def around(audited, report):
    folder = Path(tempfile.mkdtemp(prefix="around-"))
    for name, start in AROUND.items():
        if name == "greenlet_ops" and not importlib.util.find_spec("gevent"):
            print("left out: greenlet_ops needs gevent")
            continue
        program(audited, report, folder, name, [*start, str(HERE / f"{name}.py")])
