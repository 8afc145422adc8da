#!/usr/bin/env python3
"""Makes the images of the golden tests, and golden.json: what NVIDIA's own tools say about them.

    CUDA_HOME=.. CUDA12_HOME=.. NVRTC12=.. python3 make.py

See README.md for what these are. Nothing of this script's environment ends up in its results.
"""
import ctypes, json, os, re, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
IMAGES = os.path.join(HERE, "..", "images")
SAMPLES = os.path.join(HERE, "..", "..", "..", "kernels")
CUDA_HOME = os.environ["CUDA_HOME"]
PTXAS12 = os.path.join(os.environ["CUDA12_HOME"], "bin", "ptxas")
NVRTC12 = os.environ["NVRTC12"]
ARCHS = ["sm_75", "sm_80", "sm_90", "sm_90a"]


def tool(name):
    return os.path.join(CUDA_HOME, "bin", name)


def run(*command, cwd=None):
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def demangle(symbol):
    return run("c++filt", symbol).strip()


def ptxas_facts(log):
    """The report of `ptxas -v`: symbol -> registers, frame, cumulative stack, shared memory."""
    facts, entry = {}, None
    lines = log.splitlines()
    for number, line in enumerate(lines):
        if found := re.search(r"Compiling entry function '(\S+)' for", line):
            entry = facts[found[1]] = {"registers": 0, "frame": 0, "stack": None, "shared": 0}
            name = found[1]
        if entry is None:
            continue
        if line.endswith(f"Function properties for {name}"):
            entry["frame"] = int(re.search(r"(\d+) bytes stack frame", lines[number + 1])[1])
        if found := re.search(r"Used (\d+) registers", line):
            entry["registers"] = int(found[1])
            if found := re.search(r"(\d+) bytes smem", line):
                entry["shared"] = int(found[1])
            if found := re.search(r"(\d+) bytes cumulative stack size", line):
                entry["stack"] = int(found[1])
    return facts


def cuobjdump_facts(cubin):
    """What `cuobjdump -res-usage` and `cuobjdump -elf` print of a cubin."""
    usage = run(tool("cuobjdump"), "-res-usage", cubin)
    kernels = {}
    for symbol, numbers in re.findall(r"Function (\S+):\n\s+(REG:.*)", usage):
        numbers = dict(pair.split(":") for pair in numbers.split())
        # The stack is UNKNOWN to nvlink where functions call themselves.
        kernels[symbol] = {key: int(numbers[name]) if numbers[name].isdigit() else None
                           for key, name in [("registers", "REG"), ("stack", "STACK"), ("shared", "SHARED")]}
    elf = run(tool("cuobjdump"), "-elf", cubin)
    header = re.search(r"sm=(\S+), toolkit=(\S+),", elf)
    for symbol, section in re.findall(r"^\.nv\.info\.(\S+)\n(.*?)(?=^\.|\Z)", elf, re.M | re.S):
        kernel = kernels.setdefault(symbol, {})
        params = re.findall(r"Ordinal : 0x(\w+)\s+Offset  : 0x(\w+)\s+Size    : 0x(\w+)", section)
        kernel["params"] = [p[1:] for p in sorted([int(n, 16) for n in p] for p in params)]
        for attribute, key in [("MAX_THREADS", "max_threads"), ("REQNTID", "required_threads"),
                               ("CTA_PER_CLUSTER", "cluster"), ("MAX_CLUSTER_RANK", "max_cluster")]:
            if found := re.search(rf"EIATTR_{attribute}\n.*\n\s*Value:\s*(.*)", section):
                kernel[key] = [int(n, 16) for n in found[1].split()]
        externs = re.search(r"externs:\s*(.*)", section)
        kernel["externs"] = sorted(re.findall(r"(\S+)\(0x\w+\)", externs[1])) if externs else []
    # Functions that were compiled separately have sections of their own; kernels have bit 0x10.
    symbols = re.findall(r"^ +0x\w+ +\w+ +\w+ +0x\w*2 +(\w+) +0x\w+ +(\S+) *$", elf, re.M)
    marked = {symbol for other, symbol in symbols if int(other, 16) & 0x10}
    kernels = {symbol: kernel for symbol, kernel in kernels.items() if symbol in marked}
    for symbol, kernel in kernels.items():
        kernel["demangled"] = demangle(symbol)
    return {"target": "sm_" + header[1], "toolkit": header[2], "kernels": kernels}


def cubin(golden, cwd, source, arch, flags=()):
    name = f"{os.path.basename(source)[:-3]}.{arch}.cubin"
    out = os.path.join(IMAGES, name)
    log = run(tool("nvcc"), "-cubin", "-std=c++17", f"-arch={arch}", "-Xptxas", "-v", "-diag-suppress", "177", *flags, "-o", out, source, cwd=cwd)
    facts = cuobjdump_facts(out)
    for symbol, ptxas in ptxas_facts(log).items():
        facts["kernels"][symbol]["ptxas"] = ptxas
    golden[name] = facts


def assembled(golden, name, arch):
    """What the tools say about PTX: they have to assemble it first."""
    # ptxas does not take the NUL at the end.
    text = open(os.path.join(IMAGES, name)).read().rstrip("\0")
    with tempfile.TemporaryDirectory() as folder:
        ptx, out = os.path.join(folder, "in.ptx"), os.path.join(folder, "out.cubin")
        open(ptx, "w").write(text)
        run(tool("ptxas"), f"-arch={arch}", "-o", out, ptx)
        facts = cuobjdump_facts(out)
    facts["target"] = re.search(r"^\.target (\w+)", text, re.M)[1]
    facts["version"] = [int(n) for n in re.search(r"^\.version (\d+)\.(\d+)", text, re.M).groups()]
    facts["toolkit"] = re.search(r"tools, release ([\d.]+),", text)[1]
    golden[name] = facts


def cubin12(golden, ptx, arch):
    """PTX 8.0, assembled by CUDA 12.0, whose cubins cuobjdump 13 reads only in part."""
    name = f"{ptx.split('.')[0]}.{arch}.cuda12.cubin"
    out = os.path.join(IMAGES, name)
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(re.sub(r"(?m)^\.target sm_\w+", f".target {arch}", open(os.path.join(IMAGES, ptx)).read().rstrip("\0")))
        file.flush()
        log = run(PTXAS12, "-v", f"-arch={arch}", "-o", out, file.name)
    kernels = {symbol: {"ptxas": facts, "demangled": demangle(symbol)} for symbol, facts in ptxas_facts(log).items()}
    golden[name] = {"target": arch, "toolkit": "12.0", "kernels": kernels}


def nvrtc12(cwd, source, out, options):
    """NVRTC 12.0, which makes PTX 8.0."""
    lib, program = ctypes.CDLL(NVRTC12), ctypes.c_void_p()
    text = open(os.path.join(cwd, source), "rb").read()
    options = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
    back = os.getcwd()
    os.chdir(cwd)  # Headers are looked for in the folder of the program's name.
    lib.nvrtcCreateProgram(ctypes.byref(program), text, source.encode(), 0, None, None)
    if lib.nvrtcCompileProgram(program, len(options), options):
        sys.exit(f"NVRTC 12.0 does not compile {source}")
    os.chdir(back)
    size = ctypes.c_size_t()
    lib.nvrtcGetPTXSize(program, ctypes.byref(size))
    ptx = ctypes.create_string_buffer(size.value)
    lib.nvrtcGetPTX(program, ptx)
    # With the NUL at its end, as NVRTC hands it out.
    open(os.path.join(IMAGES, out), "wb").write(ptx.raw)


def known():
    """Images of which the tests know from their sources what the tools should say."""
    image = lambda name: os.path.join(IMAGES, name)
    run(tool("nvcc"), "-cubin", "-arch=sm_90", "-o", image("stack.sm_90.cubin"), "stack.cu", cwd=HERE)
    run(tool("nvcc"), "-rdc=true", "-cubin", "-arch=sm_90", "-o", image("launches.sm_90.cubin"), "launches.cu", cwd=HERE)
    for arch in ["sm_75", "sm_90", "sm_100"]:
        run(tool("nvcc"), "-rdc=true", "-cubin", f"-arch={arch}", "-o", image(f"separate.{arch}.cubin"), "separate.cu", cwd=HERE)
    run(tool("nvcc"), "-fatbin", "-compress-mode=none", "-gencode=arch=compute_80,code=[sm_80,compute_80]", "-gencode=arch=compute_90,code=sm_90",
        "-o", image("aligned.fatbin"), "aligned.cu", cwd=HERE)
    nvrtc12(HERE, "stack.cu", "stack.nvrtc12.ptx", ["--gpu-architecture=compute_75"])
    cubin12({}, "stack.nvrtc12.ptx", "sm_90")
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "stack.cubin")
        run(tool("nvcc"), "-rdc=true", "-cubin", "-arch=sm_90", "-o", out, "stack.cu", cwd=HERE)
        run(tool("nvlink"), "-arch=sm_90", "-o", image("stack.linked.cubin"), out)


def main():
    os.makedirs(IMAGES, exist_ok=True)
    golden = {}
    sources = sorted(f for f in os.listdir(os.path.join(SAMPLES, "cuda")) if f.endswith(".cu"))
    for source in sources:
        for arch in ARCHS:
            if source != "cluster.cu" or "90" in arch:
                cubin(golden, SAMPLES, f"cuda/{source}", arch)
    for arch in ARCHS + ["sm_100a"]:
        cubin(golden, HERE, "odd.cu", arch, [] if arch in ["sm_75", "sm_80"] else ["-DCLUSTERS"])
    for arch in ["sm_100f", "sm_120"]:
        cubin(golden, SAMPLES, "cuda/spin.cu", arch)

    for source in ["diagnose", "particles", "reduce", "cluster"]:
        arch = "90" if source == "cluster" else "60"
        nvrtc12(SAMPLES, f"cuda/{source}.cu", f"{source}.nvrtc12.ptx", [f"--gpu-architecture=compute_{arch}", "--std=c++17", "-D__NV_TARGET_H"])
        assembled(golden, f"{source}.nvrtc12.ptx", "sm_90" if arch == "90" else "sm_75")
    for arch in ["sm_60", "sm_90", "sm_90a"]:
        cubin12(golden, "diagnose.nvrtc12.ptx", arch)
        cubin12(golden, "reduce.nvrtc12.ptx", arch)
    cubin12(golden, "cluster.nvrtc12.ptx", "sm_90a")
    for source, cwd, arch, flags in [("cuda/diagnose.cu", SAMPLES, "sm_75", []), ("odd.cu", HERE, "sm_90a", ["-DCLUSTERS"])]:
        name = f"{os.path.basename(source)[:-3]}.nvcc13.ptx"
        run(tool("nvcc"), "-ptx", "-std=c++17", f"-arch={arch}", "-diag-suppress", "177", *flags, "-o", os.path.join(IMAGES, name), source, cwd=cwd)
        assembled(golden, name, arch)

    known()

    # Separate compilation keeps functions apart, so that calls are in .nv.callgraph.
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "odd.cubin")
        run(tool("nvcc"), "-rdc=true", "-cubin", "-std=c++17", "-arch=sm_90a", "-DCLUSTERS", "-diag-suppress", "177", "-o", out, "odd.cu", cwd=HERE)
        name = "odd.linked.cubin"
        run(tool("nvlink"), "-arch=sm_90a", "-o", os.path.join(IMAGES, name), out)
        golden[name] = cuobjdump_facts(os.path.join(IMAGES, name))

    for mode in ["default", "none", "size", "speed"]:
        run(tool("nvcc"), "-fatbin", "-std=c++17", f"-compress-mode={mode}", "-gencode=arch=compute_75,code=sm_75", "-gencode=arch=compute_90a,code=sm_90a",
            "-gencode=arch=compute_75,code=compute_75", "-o", os.path.join(IMAGES, f"reduce.{mode}.fatbin"), "cuda/reduce.cu", cwd=SAMPLES)
    run(tool("nvcc"), "-fatbin", "-std=c++17", "-compress-mode=size", "-gencode=arch=compute_100f,code=[sm_100f,compute_100f]", "-gencode=arch=compute_90a,code=compute_90a",
        "-gencode=arch=compute_90,code=lto_90", "-o", os.path.join(IMAGES, "spin.family.fatbin"), "cuda/spin.cu", cwd=SAMPLES)

    with open(os.path.join(HERE, "golden.json"), "w") as file:
        json.dump(golden, file, indent=1, sort_keys=True)
        file.write("\n")
    print(len(golden), "images,", sum(len(image["kernels"]) for image in golden.values()), "kernels")


main()
