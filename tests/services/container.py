#!/usr/bin/env python3
"""Runs a service in the container that examples/production describes, without Docker or Kubernetes: in namespaces of its own, without root,
capabilities and inherited variables, with a read-only root and a small /tmp mounted with noexec. First root records into the image, and the
service's user preloads that; then the user records into /tmp. Nothing may be late or refused, no warning may appear, and only files that
were asked for may be left in /tmp.

    tests/services/container.py FOLDER

FOLDER is the folder that `kernel-audit pack FOLDER --sim` has written. This Python needs the packages gunicorn and kubernetes-validate. Exits with 2
if this user can't make namespaces.
"""
import ctypes
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import sysconfig
import threading
import time
from pathlib import Path

import shipped
from service import HERE, LONGEST, SEES_FILE, Service, faults

# Folders of the namespace that the machine doesn't see. The second has what is outside of the container, such as logs.
IMAGE, OUTSIDE = Path("/srv"), Path("/mnt")
TOOL, PYTHON, PACKAGES, AUDIT = IMAGE / "tool", IMAGE / "python", IMAGE / "packages", IMAGE / "audit"
# The bytes that may be in use in /tmp, with five records: those of the workers and of gunicorn itself.
MOST = 8 << 20
OWN = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
WALLS = """
test "$(id -u):$(id -g):$(id -G)" = {user}:{group}:{group} || echo "the user is $(id)"
grep -q '^CapBnd:\\s*0*$' /proc/self/status || echo 'there are capabilities'
grep -q '^NoNewPrivs:\\s*1$' /proc/self/status || echo 'the program can get privileges'
for folder in / /srv/record /var/tmp /run /mnt; do ! touch $folder/walk 2>/dev/null || echo "$folder can be written to"; done
cp /bin/true {temporary}/walk && ! {temporary}/walk 2>/dev/null || echo '{temporary} lets programs run'
rm {temporary}/walk
"""


def run(*words, **options):
    subprocess.run([str(word) for word in words], check=True, **options)


def mount_tmpfs(folder, options):
    run("mount", "-t", "tmpfs", "-o", options, "tmpfs", folder)


def make_read_only(folder):
    """Makes a mount and all mounts below it read-only: `mount` in older versions of util-linux can't."""
    from_here, recursive, read_only, call = -100, 0x8000, 1, 442
    attributes = struct.pack("4Q", read_only, 0, 0, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(call, from_here, str(folder).encode(), recursive, attributes, len(attributes)):
        raise OSError(ctypes.get_errno(), f"mount_setattr of {folder}")


def start_loopback():
    name, up, set_flags = b"lo", 1, 0x8914
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, set_flags, struct.pack("16sH14x", name, up))


def build(tool):
    """Makes the image: what the Dockerfile copies and installs, before its user, except the record."""
    make_read_only("/")
    mount_tmpfs(IMAGE, "mode=755")
    mount_tmpfs(OUTSIDE, "mode=755")
    mount_tmpfs("/dev/shm", "size=1m,noexec,mode=1777")
    # The user of the container may have no access to where these are outside.
    sources = {TOOL: tool, PYTHON: sys.base_prefix, PACKAGES: sysconfig.get_path("purelib"), AUDIT: shipped.ROOT / "kernel-audit/python"}
    for folder, source in sources.items():
        folder.mkdir()
        run("mount", "--bind", source, folder)
    for name in ["app", "record", "bin"]:
        (IMAGE / name).mkdir()
    for name in ["app.py", "hooks.py"]:
        shutil.copy(HERE / name, IMAGE / "app")
    gunicorn = IMAGE / "bin/gunicorn"
    gunicorn.write_text(f"#!{PYTHON}/bin/python3\nfrom gunicorn.app.wsgiapp import run\nrun()\n")
    gunicorn.chmod(0o755)


def inside(container, user, folder):
    """Returns the words that start a program as the container's runtime does."""
    words = ["env", "-i", f"--chdir={container.folder}", f"PATH={TOOL}:{IMAGE}/bin:{PYTHON}/bin:/usr/bin:/bin"]
    # Python's libraries and packages, the driver, and the mark that finds what is left of the service.
    words += [f"PYTHONPATH={PACKAGES}:{AUDIT}", "PYTHONDONTWRITEBYTECODE=1", f"LD_LIBRARY_PATH={TOOL}/sim:{PYTHON}/lib", f"SERVICE_FOLDER={folder}"]
    if user == "root":
        return words
    own = [f"--reuid={container.user}", f"--regid={container.group}", "--clear-groups"]
    return ["setpriv", *own, "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs", *words]


class Contained(Service):
    """The service as the first process of a container."""

    def __init__(self, container, user, name, audit):
        folder = OUTSIDE / name
        folder.mkdir()
        self.container, self.words = container, inside(container, user, folder)
        super().__init__(TOOL, folder, container.command, [*OWN, *self.words, *audit])
        self.ports = [container.port]

    def stop(self, number):
        first = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        os.kill(int(first), number)
        code = self.process.wait(LONGEST)
        return code if code >= 0 else 128 - code


class Use:
    """Looks every few milliseconds how much of a file system is in use. `most` is the peak."""

    def __init__(self, folder):
        self.folder, self.most, self.stopped = folder, 0, threading.Event()
        self.thread = threading.Thread(target=self._look)

    def _look(self):
        while not self.stopped.wait(0.005):
            now = os.statvfs(self.folder)
            self.most = max(self.most, (now.f_blocks - now.f_bfree) * now.f_frsize)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self.thread.join()


def serve(container, user, name, audit):
    """Runs the service once until it's told to end. Yields what is wrong."""
    service = Contained(container, user, name, audit)
    code, answers = None, {}
    try:
        with Use(container.temporary) as use:
            service.wait_until_healthy(container.workers)
            run(*service.words, *container.probe)
            time.sleep(SEES_FILE)
            answers = service.ask_all(["/", "/work"], 5, container.workers)
            code = service.stop(signal.SIGTERM)
    except (AssertionError, subprocess.CalledProcessError) as error:
        yield f"{error}\n{service.log.read_text()[-2000:]}"
    finally:
        left = service.close()
    if code is None:
        return
    if code or left:
        yield f"it ended with {code}, and left {len(left)} processes"
    given = set().union(*answers.values())
    if given != {("/", 200, "first"), ("/work", 200, "second")}:
        yield f"it answered {sorted(given)}"
    if not 0 < use.most < MOST:
        yield f"{use.most} bytes were in use in {container.temporary}"
    # While the service records, late loads are the point. Any other message of the audit is a warning.
    bad = re.compile(r"(?i).*\b(warning|error)\b|kernel-audit: (?!during serving)")
    yield from filter(bad.match, service.log.read_text().splitlines())
    print(f"       {name}: at most {use.most / (1 << 20):.1f} MiB in {container.temporary}", flush=True)


def preloaded(container, name, preload):
    """Runs the service with a record, and with its late loads refused. Yields what is wrong."""
    report = Path(container.temporary) / "report.json"
    audit = [preload if word == container.preload else word for word in container.entrypoint[:-1]]
    yield from serve(container, "user", name, [*audit, "--after-ready", "refuse", "--json", str(report), "--"])
    if not report.exists():
        yield "there is no report"
        return
    yield from faults(report)
    workers = [process for process in json.loads(report.read_text())["processes"] if process["preloaded"]]
    if len(workers) < container.workers or any(process["ready_ms"] is None for process in workers):
        yield f"of {container.workers} workers, {len(workers)} were preloaded: {[process['ready_ms'] for process in workers]}"


def recorded(container, user, name, preload):
    """Runs the service with --record in place of the Dockerfile's --preload. Yields what is wrong."""
    into = {"--preload": "--record", container.preload: preload}
    yield from serve(container, user, name, [into.get(word, word) for word in container.entrypoint])
    # Without a late load here, the preloaded service would prove nothing.
    file = Path(preload, "late.preload") if Path(preload).is_dir() else Path(preload)
    if not file.exists() or "    second\n" not in file.read_text():
        yield "`second` was not late"


def temporary(container, walk):
    """Does one walk with a fresh /tmp. Yields what is wrong, and what is left that the walk didn't ask for."""
    folder = Path(container.temporary)
    mount_tmpfs(folder, f"size={container.bytes},mode=1777,noexec,nosuid,nodev")
    yield from walk()
    # The folder of the auditor stays, empty: a part in the loader couldn't be mapped from /tmp.
    asked = r"ready|report\.json|late\.preload|late\.preload\.(baked|images(/.*)?)|kernel-registry-front-\d+"
    left = [path for path in folder.rglob("*") if not re.fullmatch(asked, str(path.relative_to(folder)))]
    yield from (f"left behind: {path}" for path in [*left, *Path("/dev/shm").iterdir()])
    run("umount", folder)


def walks(container):
    """Yields the name and what is wrong of each walk. The second needs what the first left in the image."""
    user = (container.user, container.group)

    def in_the_image():
        yield from recorded(container, "root", "recorded-by-root", container.preload)

    def shipped_record():
        walls = WALLS.format(user=user[0], group=user[1], temporary=container.temporary)
        found = subprocess.run([*inside(container, "user", OUTSIDE), "sh", "-c", walls], capture_output=True, text=True)
        yield from (found.stdout + found.stderr).splitlines()
        yield from preloaded(container, "preloaded", container.preload)

    def mounted_record():
        # As record.Dockerfile copies it, and as a volume is mounted.
        volume, place = OUTSIDE / "volume", Path(container.preload)
        shutil.copytree(place, volume)
        run("chmod", "-R", "755", volume)
        run("mount", "--bind", volume, place)
        run("mount", "-o", "remount,bind,ro,noexec,nosuid,nodev", place)
        yield from preloaded(container, "mounted", container.preload)
        run("umount", place)

    def own_record():
        preload = f"{container.temporary}/late.preload"
        yield from recorded(container, "user", "recorded-by-the-user", preload)
        yield from preloaded(container, "preloaded-again", preload)

    def killed():
        # Kubernetes keeps /tmp when it starts a container again.
        for number in range(12):
            service = Contained(container, "user", f"killed-{number}", container.entrypoint)
            try:
                service.wait_until_healthy(container.workers)
                service.ask_all(["/", "/work"], 5, container.workers)
                service.stop(signal.SIGKILL)
            finally:
                service.close()
        now = os.statvfs(container.temporary)
        if (now.f_blocks - now.f_bfree) * now.f_frsize > MOST:
            yield "the records of killed containers stay"
        yield from preloaded(container, "after-kills", container.preload)

    yield "root records into the image", list(temporary(container, in_the_image))
    # A build gets the modes of a checkout, however lax they are.
    run("chmod", "-R", "a+w", IMAGE / "record")
    for change in container.changes:
        run("sh", "-c", change)
    make_read_only(IMAGE)
    yield "a user reads the image's record", list(temporary(container, shipped_record))
    yield "a user reads the record of a volume", list(temporary(container, mounted_record))
    yield "a user records into /tmp and reads that", list(temporary(container, own_record))
    yield "a container is killed again and again", list(temporary(container, killed))


def main():
    if len(sys.argv) == 2:
        try:
            container = shipped.read()
        except AssertionError as error:
            sys.exit(f"examples/production: {error}")
        wrong = list(shipped.unlike_the_page())
        print("\n".join(wrong or ["ok     the files of examples/production"]), flush=True)
        unshared = [*OWN, "--net"]
        tried = subprocess.run([*unshared, "true"], capture_output=True, text=True)
        if tried.returncode:
            print(f"NOT RUN: only root can make the namespaces of a container: {tried.stderr.strip()}", file=sys.stderr)
            sys.exit(2)
        inner = subprocess.run([*unshared, sys.executable, __file__, "--inside", str(Path(sys.argv[1]).resolve())])
        sys.exit(inner.returncode or bool(wrong))
    if len(sys.argv) != 3 or sys.argv[1] != "--inside":
        sys.exit(__doc__)
    container, failed = shipped.read(), False
    start_loopback()
    build(sys.argv[2])
    for name, wrong in walks(container):
        failed |= bool(wrong)
        print(f"{'FAILED' if wrong else 'ok    '} {name}", flush=True)
        for line in "\n".join(wrong).splitlines():
            print(f"    {line}", flush=True)
    sys.exit(failed)


main()
