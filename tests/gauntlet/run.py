#!/usr/bin/env python3
"""Runs programs that a tool in their processes could disturb: alone, recorded and preloaded. What they print to standard output and standard
error, and their exit codes, must be the same to the byte.

    tests/gauntlet/run.py FOLDER_OF_KERNEL_AUDIT NVRTC NVRTC [--only WORD]

The folder is one that `kernel-audit pack` wrote. Each NVRTC is the path of a library, such as those of the wheels nvidia-cuda-nvrtc. A case
that this machine can't run is named, and counts as failed, unless `--allow-missing` is there.
"""
import argparse
import os
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ARCH = "-arch=sm_80"


# A container whose folders for files let no code run.
CONTAINER = """
mount --make-rprivate /
mount -t tmpfs -o size=16m,noexec tmpfs "$0"
mount -t tmpfs -o size=1m,noexec tmpfs /var/tmp
unset XDG_CACHE_HOME XDG_RUNTIME_DIR CACHE_DIRECTORY
export TMPDIR="$0" HOME=/nonexistent
exec "$@"
"""


class Missing(Exception):
    pass


class Gauntlet:
    def __init__(self, tool, nvrtcs, scratch):
        self.tool, self.nvrtcs, self.scratch = tool, [Path(path).resolve() for path in nvrtcs], scratch
        self.built = {}
        driver = self.cc("libcuda.so.1", "driver.c", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1")
        # Some versions don't find their builtins by themselves.
        self.libraries = os.pathsep.join([str(driver.parent), *(str(path.parent) for path in self.nvrtcs)])

    def cc(self, name, source, *flags, compiler="cc"):
        if not shutil.which(compiler):
            raise Missing(f"there is no {compiler}")
        path = self.scratch / name
        if name not in self.built:
            command = [compiler, "-w", "-o", str(path), str(HERE / source), *flags]
            subprocess.run(command, check=True)
            self.built[name] = path
        return path

    def opens(self):
        return self.cc("opens", "client.c", "-ldl", "-lpthread")

    def linked(self, *flags):
        nvrtc = self.nvrtcs[0]
        name = "linked" + "".join(flags).replace(",", "")
        return self.cc(name, "client.c", "-DLINKED", *flags, str(nvrtc), f"-Wl,-rpath,{nvrtc.parent}", "-ldl", "-lpthread")

    def run(self, command, options, env):
        """Runs a shell's line, alone if there are no options for the tool. Returns what it prints, and its exit code."""
        output, errors, code = (self.scratch / name for name in ["output", "errors", "code"])
        for file in [output, errors, code]:
            file.unlink(missing_ok=True)
        line = f"({command}) >{shlex.quote(str(output))} 2>{shlex.quote(str(errors))}; echo $? >{shlex.quote(str(code))}"
        audit = [str(self.tool / "kernel-audit"), *options, "--"] if options else []
        around = ["unshare", "-rm", "sh", "-ec", CONTAINER, env["NOEXEC"]] if "NOEXEC" in env else []
        done = subprocess.run(
            [*around, *audit, "sh", "-c", line], env={**os.environ, "LD_LIBRARY_PATH": self.libraries, **env}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300,
        )
        texts = [file.read_text(errors="replace") if file.exists() else "MISSING" for file in [output, errors, code]]
        if env.get("EXPECT") == "a line of the loader":
            texts[1] = "".join(line for line in texts[1].splitlines(True) if "cannot be loaded as audit interface" not in line)
        return texts, done.stdout

    def compare(self, name, command, env={}, expect_kept=True):
        """Runs a case three times. Returns whether all are the same."""
        file = self.scratch / "late.preload"
        shutil.rmtree(f"{file}.images", ignore_errors=True)
        file.unlink(missing_ok=True)
        alone, _ = self.run(command, [], env)
        recorded, said = self.run(command, ["--record", str(file)], env)
        preloaded, given = self.run(command, ["--preload", str(file)], env)
        is_kept = "given back" in given
        is_same = alone == recorded == preloaded and (is_kept or not expect_kept)
        print(f"{'same' if is_same else 'DIFFERENT'}: {name}{', results given back' if is_kept else ''}", flush=True)
        if not is_same:
            for way, texts in [("alone", alone), ("recorded", recorded), ("preloaded", preloaded)]:
                print(f"  {way}: exit code {texts[2].strip()}", *(f"  | {line}" for text in texts[:2] for line in text.splitlines()), sep="\n")
            print("  the audit says:", *(f"  | {line}" for line in (said + given).splitlines()[:40]), sep="\n")
        return is_same


def of_nvrtc(g):
    """Ways to get NVRTC's functions and to use them."""
    for nvrtc in g.nvrtcs:
        version = nvrtc.parent.parent.parent.name + "/" + nvrtc.name
        for way in ["plain", "global", "forks", "again", "versions", "closes"]:
            yield f"{way} with {version}", lambda: f"{g.opens()} {way} {nvrtc} {ARCH}", {}
        yield f"line numbers with {version}", lambda: f"{g.opens()} plain {nvrtc} {ARCH} -lineinfo", {"NAME": "/tmp/a.cu"}
        yield f"LTO code with {version}", lambda: f"{g.opens()} plain {nvrtc} {ARCH} -dlto", {}
    one, two = g.nvrtcs
    yield "two NVRTCs in a process", lambda: f"{g.opens()} two {one} {ARCH}", {"OTHER": str(two)}
    yield "a cancelled thread", lambda: f"{g.opens()} cancelled {one} {ARCH}", {}
    yield "linked, bound lazily", lambda: f"{g.linked('-Wl,-z,lazy')} plain {one} {ARCH}", {}
    yield "linked, bound at start", lambda: f"{g.linked('-Wl,-z,now')} plain {one} {ARCH}", {}
    yield "linked, without a PLT", lambda: f"{g.linked('-fno-plt', '-O1')} plain {one} {ARCH}", {}
    yield "in a jail after the first compilation", lambda: f"{g.opens()} jail {one} {ARCH}", {"JAIL": str(g.scratch)}

    def noexec():
        (g.scratch / "noexec").mkdir(exist_ok=True)
        return f"{g.opens()} plain {one} {ARCH}"

    yield "where temporary folders let no code run", noexec, {"NOEXEC": str(g.scratch / "noexec")}

    def between():
        wrapper = g.cc("libwrapper.so", "wrapper.c", "-shared", "-fPIC", "-ldl")
        flags = ["-Wl,--no-as-needed", str(wrapper), f"-Wl,-rpath,{g.scratch}"]
        program = g.cc("wrapped", "client.c", "-DLINKED", *flags, str(one), f"-Wl,-rpath,{one.parent}", "-ldl", "-lpthread")
        return f"{program} plain {one} {ARCH}"

    def preloaded():
        wrapper = g.cc("libcounts.so", "wrapper.c", "-DPRELOADED", "-shared", "-fPIC", "-ldl")
        return f"LD_PRELOAD={wrapper} {g.linked('-Wl,-z,lazy')} plain {one} {ARCH}"

    def plugin():
        flags = [str(one), f"-Wl,-rpath,{one.parent}", "-ldl"]
        library = g.cc("libplugin.so", "plugin.c", "-shared", "-fPIC", *flags)
        return f"{g.cc('host', 'plugin.c', '-DHOST', '-ldl')} {library}"

    yield "a wrapper that is linked before NVRTC", between, {}
    yield "a wrapper in LD_PRELOAD", preloaded, {}
    yield "a plugin that looks up its NVRTC", plugin, {"EXPECT": "no"}


def without_nvrtc(g):
    """Processes that don't use NVRTC at all."""
    yield "lookups without NVRTC", lambda: f"{g.opens()} without x", {}
    yield "a program of musl", lambda: f"{g.cc('musl', 'hello.c', compiler='musl-gcc')}", {}
    yield "a static program", lambda: f"{g.cc('static', 'hello.c', '-static')}", {}

    def setuid():
        program = g.cc("setuid", "hello.c")
        os.chown(program, 65534, 65534)
        program.chmod(program.stat().st_mode | stat.S_ISUID)
        return str(program)

    def other_user():
        if os.geteuid() or not shutil.which("setpriv"):
            raise Missing("only root runs a child as another user")
        return f"setpriv --reuid=65534 --regid=65534 --clear-groups {g.cc('hello', 'hello.c')}"

    def thread_local():
        library = g.cc("libtls.so", "tls.c", "-shared", "-fPIC")
        return str(g.cc("tls", "tls.c", "-DPROGRAM", str(library), f"-Wl,-rpath,{g.scratch}"))

    yield "a library with thread-local variables", thread_local, {}
    yield "a setuid program", setuid, {}
    # Where the user's home is closed, the child can't read the part in the loader.
    yield "a child of another user", other_user, {"EXPECT": "a line of the loader"}
    script = "import ctypes; print(hasattr(ctypes.CDLL(None), 'nvrtcCreateProgram'), hasattr(ctypes.CDLL(None), 'puts'))"
    pythons = sorted({path for folder in os.environ["PATH"].split(":") for path in Path(folder).glob("python3.*") if path.name[8:].isdigit()})
    for python in pythons:
        if subprocess.run([python, "-c", "pass"], capture_output=True).returncode:
            continue
        yield f"ctypes of {python}", lambda: f"{python} -c {shlex.quote(script)}", {}


def with_nvrtc(g):
    """Processes of other kinds that use NVRTC."""
    nvrtc = g.nvrtcs[0]
    client = f"plain {nvrtc} {ARCH}"
    for name, package in [("libjemalloc.so.2", "libjemalloc2"), ("libtcmalloc_minimal.so.4", "libtcmalloc-minimal4")]:
        found = next(Path("/usr/lib").glob(f"**/{name}"), None)

        def allocator():
            if not found:
                raise Missing(f"there is no {name}: install {package}")
            return f"LD_PRELOAD={found} {g.opens()} forks {nvrtc} {ARCH}"

        yield f"the allocator {name}", allocator, {}
    python = lambda file: lambda: f"{sys.executable} {HERE / file} {nvrtc}"
    yield "a fork server of Python", python("servers.py"), {"WAY": "forkserver"}
    yield "children that Python spawns", python("servers.py"), {"WAY": "spawn"}
    yield "children that Python forks", python("servers.py"), {"WAY": "fork"}

    def gevent():
        if subprocess.run([sys.executable, "-c", "import gevent"], capture_output=True).returncode:
            raise Missing("there is no gevent")
        return f"{sys.executable} {HERE / 'servers.py'} {nvrtc}"

    yield "greenlets of gevent", gevent, {"WAY": "gevent"}
    gone = g.scratch / "gone"

    def deleted():
        # The tool's folder is deleted while the program runs, as an upgrade does; then it starts another one.
        return f"mv {g.tool} {gone} && {g.opens()} without x; mv {gone} {g.tool}; {g.opens()} {client}"

    yield "the tool's folder is gone meanwhile", deleted, {}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("nvrtc", nargs=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--allow-missing", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        os.chmod(scratch, 0o755)
        g = Gauntlet(Path(options.tool).resolve(), options.nvrtc, Path(scratch))
        counts = {"same": 0, "different": 0, "missing": 0}
        for group, keeps in [(of_nvrtc, True), (without_nvrtc, False), (with_nvrtc, True)]:
            for name, command, env in group(g):
                if options.only not in name:
                    continue
                try:
                    keeps_this = keeps and env.get("EXPECT") != "no"
                    counts["same" if g.compare(name, command(), env, keeps_this) else "different"] += 1
                except Missing as why:
                    counts["missing"] += 1
                    print(f"NOT RUN: {name}: {why}", flush=True)
    print(", ".join(f"{count} {word}" for word, count in counts.items()))
    return 1 if counts["different"] or (counts["missing"] and not options.allow_missing) else 0


if __name__ == "__main__":
    sys.exit(main())
