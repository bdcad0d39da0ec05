#!/usr/bin/env python3
"""The archive of kubectl-muster: the same bytes each time, and a program that takes only glibc from the machine.

  plugin_archive_test.py PACKAGE_SCRIPT PROGRAM
"""
import hashlib
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

script, program = sys.argv[1:]
OF_GLIBC = {"libc.so.6", "libm.so.6", "libresolv.so.2", "libdl.so.2", "libpthread.so.0", "librt.so.1"}


def run(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


with tempfile.TemporaryDirectory() as temporary:
    root = pathlib.Path(temporary)
    for name in ("first", "second"):
        print(run(script, program, str(root / name), "--url", "https://get.example/v9/"), end="")
    (archive,) = (root / "first").glob("*.tar.gz")
    checksum = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert archive.read_bytes() == (root / "second" / archive.name).read_bytes(), "two archives of one program differ"
    manifest = (root / "first" / "muster.yaml").read_text()
    assert f'sha256: "{checksum}"' in manifest and f"uri: https://get.example/v9/{archive.name}\n" in manifest, manifest
    assert "PLACEHOLDER" not in manifest and "example.invalid/muster/v0" not in manifest, manifest

    unpacked = root / "unpacked"
    with tarfile.open(archive) as tar:
        tar.extractall(unpacked, filter="data") if hasattr(tarfile, "data_filter") else tar.extractall(unpacked)
    # krew calls it through a link.
    link = root / "kubectl-muster"
    link.symlink_to(unpacked / "kubectl-muster")
    assert "kubectl muster" in run(str(link), "--help", env={})
    for line in run("ldd", str(unpacked / "kubectl-muster")).splitlines():
        match = re.match(r"\s*(\S+) => (\S+) ", line)
        if match and match[1] not in OF_GLIBC:
            assert match[2].startswith(str(unpacked / "lib")), f"{match[1]} comes from {match[2]}"
    # Each library that is carried has its licence there.
    assert {"libcurl4", "libssl3"} <= {path.name for path in (unpacked / "licenses").iterdir()}
