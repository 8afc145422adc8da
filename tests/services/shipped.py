"""Reads the Dockerfile and the Kubernetes manifest of examples/production. Whatever container.py wouldn't try is an error."""
import copy
import json
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILES = ROOT / "examples/production"
PAGE = ROOT / "docs/production.md"
# The security context that container.py sets up. The manifest must have exactly this.
SECURITY = {"runAsNonRoot": True, "readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


@dataclass
class Shipped:
    """A container of the two files."""

    entrypoint: list
    command: list
    user: str
    group: str
    folder: str
    # The lines of the Dockerfile that change files which it has copied.
    changes: list
    probe: list
    port: int
    temporary: str
    bytes: int

    @property
    def workers(self):
        return int(self.command[self.command.index("--workers") + 1])

    @property
    def preload(self):
        return self.entrypoint[self.entrypoint.index("--preload") + 1]


def instructions(text):
    """Returns the instructions of a Dockerfile, each with its argument."""
    lines = (line for line in text.replace("\\\n", " ").splitlines() if line and not line.startswith("#"))
    return [tuple(line.split(maxsplit=1)) for line in lines]


def image():
    """Returns the values of the Dockerfile by instruction, and its lines that change files."""
    values, changes = {}, []
    for name, value in instructions((FILES / "Dockerfile").read_text()):
        if name == "RUN":
            if value.startswith("chmod "):
                changes.append(value)
            else:
                assert re.match(r"python3 -m pip install .*/srv/kernel_audit-\*\.whl$", value), f"container.py doesn't know `RUN {value}`"
        elif name == "COPY":
            assert value in ["kernel_audit-*.whl /srv/", "app/ /srv/app/", "record/ /srv/record/"], f"container.py doesn't know `COPY {value}`"
        else:
            assert name in ["FROM", "WORKDIR", "USER", "ENTRYPOINT", "CMD"] and name not in values, f"container.py doesn't know `{name} {value}`"
            values[name] = value
    return values, changes


def pod(preload):
    """Returns the specification of the manifest's pods. The whole manifest, also patched with the volume of a record, has to fit Kubernetes' schema."""
    import kubernetes_validate
    import yaml

    manifest, patch = (yaml.safe_load((FILES / name).read_text()) for name in ["deployment.yaml", "record-volume.yaml"])
    kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)
    template = manifest["spec"]["template"]
    assert manifest["spec"]["selector"]["matchLabels"] == template["metadata"]["labels"], "the selector doesn't select the pods"
    patched = copy.deepcopy(manifest)
    (container,), (its,) = patched["spec"]["template"]["spec"]["containers"], patch["spec"]["template"]["spec"]["containers"]
    assert its["name"] == container["name"] and its["volumeMounts"] == [{"name": "record", "mountPath": preload, "readOnly": True}], f"container.py doesn't know {its}"
    container["volumeMounts"] += its["volumeMounts"]
    patched["spec"]["template"]["spec"]["volumes"] += patch["spec"]["template"]["spec"]["volumes"]
    kubernetes_validate.validate(patched, kubernetes_validate.latest_version(), strict=True)
    return template["spec"]


def read():
    """Returns the container of the two files."""
    values, changes = image()
    own = instructions((FILES / "record.Dockerfile").read_text())
    assert own == [("FROM", "scratch"), ("COPY", "--chown=0:0 --chmod=755 record/ /")], f"container.py doesn't know {own}"
    entrypoint = json.loads(values["ENTRYPOINT"])
    spec = pod(entrypoint[entrypoint.index("--preload") + 1])
    assert set(spec) == {"containers", "volumes"}, f"container.py doesn't know all of {sorted(spec)}"
    (container,), (volume,), (port,) = spec["containers"], spec["volumes"], spec["containers"][0]["ports"]
    assert not {"command", "args", "env"} & set(container), "the manifest replaces a value of the Dockerfile"
    assert container["securityContext"] == SECURITY, f"container.py sets up {SECURITY}"
    (mount,) = container["volumeMounts"]
    memory = volume["emptyDir"]
    assert mount["name"] == volume["name"], f"the container doesn't mount {volume}"
    assert memory["medium"] == "Memory" and memory["sizeLimit"].endswith("Mi"), f"container.py doesn't know {volume}"
    user, _, group = values["USER"].partition(":")
    # Kubernetes can't know whether a user with a name is root.
    assert user.isdecimal() and group.isdecimal() and int(user) > 0, f"`USER {values['USER']}` has to be two numbers, and not root"
    assert entrypoint[0] == "kernel-audit" and entrypoint[-1] == "--", f"container.py adds options before the last word of {entrypoint}"
    probe = container["readinessProbe"]["exec"]["command"]
    ready = entrypoint[entrypoint.index("--ready-file") + 1]
    assert ready in probe[-1] and f":{port['containerPort']}/" in probe[-1], f"the probe has to ask port {port['containerPort']}, and make {ready}"
    return Shipped(
        entrypoint=entrypoint,
        command=json.loads(values["CMD"]),
        user=user,
        group=group,
        folder=values["WORKDIR"],
        changes=changes,
        probe=probe,
        port=port["containerPort"],
        temporary=mount["mountPath"],
        bytes=int(memory["sizeLimit"][:-2]) << 20,
    )


def unlike_the_page():
    """Yields each line that the page shows as one of these files and that isn't in the file, whatever its indentation."""
    for language, name in [("dockerfile", "*Dockerfile"), ("yaml", "*.yaml")]:
        lines = {line.strip() for file in FILES.glob(name) for line in file.read_text().splitlines()}
        excerpts = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
        if not excerpts:
            yield f"{PAGE.name} shows nothing of {name}"
        yield from (f"{PAGE.name} shows `{line}`, which no {name} has" for line in "".join(excerpts).splitlines() if line.strip() not in lines)
