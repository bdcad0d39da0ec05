#!/usr/bin/env python3
"""Packs kubectl-muster into an archive that runs wherever there is glibc, and writes a krew manifest for it.

  scripts/package-plugin.py PROGRAM FOLDER [--url URL]

PROGRAM is a kubectl-muster that was built. Debian has no static libraries of most of what it links (libcurl needs
Kerberos, which has none at all), so the archive carries the shared ones in lib/, where the program looks first. Only
glibc is taken from the machine: its version is printed. The licences of what is carried are in licenses/.

FOLDER gets kubectl-muster-linux-ARCH.tar.gz, the same bytes for the same files, and muster.yaml: manifests/krew/muster.yaml
with the archive's checksum, and URL/kubectl-muster-linux-ARCH.tar.gz as where it is.
"""
import argparse
import gzip
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# glibc, which must be of one piece with the kernel's loader and the machine's names and users.
OF_THE_MACHINE = re.compile(r"^(ld-linux|libc|libm|libdl|librt|libpthread|libresolv|linux-vdso)[-.]")
ARCHES = {"x86_64": "amd64", "aarch64": "arm64"}


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def libraries(program):
    """By the name under which they are looked for."""
    found = {}
    for line in run("ldd", str(program)).splitlines():
        if "not found" in line:
            sys.exit(f"{program}: {line.strip()}")
        match = re.match(r"\s*(\S+) => (\S+) ", line)
        if match and not OF_THE_MACHINE.match(match[1]):
            found[match[1]] = pathlib.Path(match[2]).resolve()
    return found


def licences_of(paths, folder):
    folder.mkdir()
    for path in paths:
        # Where / and /usr are one, packages may name a file by either.
        names = [str(path), str(path).removeprefix("/usr")]
        owners = [subprocess.run(["dpkg", "-S", name], capture_output=True, text=True).stdout for name in names]
        package = next((owner.split(":")[0] for owner in owners if owner), None)
        text = pathlib.Path(f"/usr/share/doc/{package}/copyright")
        if package is None or not text.exists():
            sys.exit(f"{path}: no licence is known of it")
        shutil.copy(text, folder / package)


def needed_glibc(files):
    versions = set()
    for file in files:
        versions.update(re.findall(r"GLIBC_([0-9.]+)", run("objdump", "-T", str(file))))
    return max(versions, key=lambda v: [int(n) for n in v.split(".")])


def pack(folder, archive):
    """The same bytes for the same files: no times, no owners, one order."""
    with open(archive, "wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, filename="") as packed:
        with tarfile.open(fileobj=packed, mode="w") as tar:
            for path in sorted(folder.rglob("*")):
                info = tar.gettarinfo(str(path), str(path.relative_to(folder)))
                info.mtime = info.uid = info.gid = 0
                info.uname = info.gname = ""
                info.mode = 0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644
                with open(path, "rb") if path.is_file() else open("/dev/null", "rb") as content:
                    tar.addfile(info, content if path.is_file() else None)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("program", type=pathlib.Path)
    options.add_argument("folder", type=pathlib.Path)
    options.add_argument("--url", default="https://example.invalid/muster/v0.1.0")
    asked = options.parse_args()
    arch = ARCHES.get(run("uname", "-m").strip())
    if arch is None:
        sys.exit("only x86_64 and aarch64 are known")
    asked.folder.mkdir(parents=True, exist_ok=True)
    archive = asked.folder / f"kubectl-muster-linux-{arch}.tar.gz"
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(temporary)
        (root / "lib").mkdir()
        found = libraries(asked.program)
        for name, path in found.items():
            shutil.copy(path, root / "lib" / name)
        licences_of(found.values(), root / "licenses")
        run("strip", "-o", str(root / "kubectl-muster"), str(asked.program))
        shutil.copy(ROOT / "plugin" / "kubectl_complete-muster", root)
        shutil.copy(ROOT / "LICENSE", root)
        glibc = needed_glibc([root / "kubectl-muster", *(root / "lib").iterdir()])
        pack(root, archive)
    checksum = hashlib.sha256(archive.read_bytes()).hexdigest()
    manifest = (ROOT / "manifests" / "krew" / "muster.yaml").read_text()
    manifest = re.sub(r"^# PLACEHOLDERS:.*\n", "", manifest, flags=re.M)
    manifest = re.sub(r"uri: \S+", f"uri: {asked.url.rstrip('/')}/{archive.name}", manifest)
    manifest = re.sub(r'sha256: "\w+"', f'sha256: "{checksum}"', manifest).replace("arch: amd64", f"arch: {arch}")
    (asked.folder / "muster.yaml").write_text(manifest)
    size = archive.stat().st_size / 1e6
    print(f"{archive}: {size:.1f} MB, {len(found)} libraries in lib/, needs glibc {glibc}")


if __name__ == "__main__":
    main()
