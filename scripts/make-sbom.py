#!/usr/bin/env python3
"""Writes what is in Muster's image as SPDX 2.3: the program, and the Debian packages that are linked into it or stand beside it.

  scripts/make-sbom.py BINARY VERSION >build/image/muster.spdx.json
"""
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys

# Libraries that leave nothing beside the binary: headers, and archives that are linked into it.
COMPILED_IN = ["nlohmann-json3-dev", "libcli11-dev", "libboost1.81-dev"]


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def package_of(path):
    """The Debian package that a library is from; `/lib` and `/usr/lib` are one place, which dpkg does not know."""
    real = os.path.realpath(path)
    for name in (path, real, real.removeprefix("/usr"), "/usr" + path):
        found = subprocess.run(["dpkg-query", "-S", name], capture_output=True, text=True)
        if found.returncode == 0:
            return found.stdout.split(":")[0]
    sys.exit(f"make-sbom: no Debian package has {path}")


def described(name):
    version, architecture, home = output(
        "dpkg-query", "-W", "-f", "${Version}\n${Architecture}\n${Homepage}", f"{name}"
    ).split("\n")[:3]
    return {
        "SPDXID": "SPDXRef-" + re.sub("[^A-Za-z0-9.-]", "-", name),
        "name": name,
        "versionInfo": version,
        "supplier": "Organization: Debian",
        "downloadLocation": "NOASSERTION",
        "homepage": home or "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "NOASSERTION",
        "copyrightText": "NOASSERTION",
        "externalRefs": [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": f"pkg:deb/debian/{name}@{version}?arch={architecture}",
            }
        ],
    }


def main():
    binary, version = sys.argv[1:]
    libraries = re.findall(r"(/\S+) \(0x", output("ldd", binary))
    names = {package_of(path) for path in libraries} | set(COMPILED_IN) | {"ca-certificates", "tzdata"}
    packages = [described(name) for name in sorted(names)]
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or output("git", "-C", str(pathlib.Path(__file__).parent), "log", "-1", "--format=%ct"))
    muster = {
        "SPDXID": "SPDXRef-muster",
        "name": "muster",
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "Apache-2.0",
        "licenseDeclared": "Apache-2.0",
        "copyrightText": "NOASSERTION",
    }
    json.dump(
        {
            "spdxVersion": "SPDX-2.3",
            "dataLicense": "CC0-1.0",
            "SPDXID": "SPDXRef-DOCUMENT",
            "name": f"muster-{version}",
            "documentNamespace": f"https://muster.dev/spdx/muster-{version}-{epoch}",
            "creationInfo": {
                "created": datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "creators": ["Tool: make-sbom.py"],
            },
            "packages": [muster, *packages],
            "relationships": [
                {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-muster"},
                *(
                    {"spdxElementId": "SPDXRef-muster", "relationshipType": "DEPENDS_ON", "relatedSpdxElement": p["SPDXID"]}
                    for p in packages
                ),
            ],
        },
        sys.stdout,
        indent=1,
    )


main()
