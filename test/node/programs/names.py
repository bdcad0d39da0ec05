"""The cluster's DNS, as far as gangs need it: <host>.<service>.<namespace>.svc, asked of the endpoints at each query.

  names.py ADDRESS SERVER_URL CA CERTIFICATE KEY
"""

import json
import socket
import ssl
import struct
import sys
import urllib.request


def addresses(name, server, context):
    parts = name.split(".")
    if len(parts) < 4 or parts[3] != "svc":
        return []
    host, service, namespace = parts[:3]
    url = "%s/apis/discovery.k8s.io/v1/namespaces/%s/endpointslices?labelSelector=kubernetes.io%%2Fservice-name%%3D%s"
    with urllib.request.urlopen(url % (server, namespace, service), context=context, timeout=5) as answer:
        slices = json.load(answer)["items"]
    endpoints = [endpoint for part in slices for endpoint in part.get("endpoints") or []]
    return [endpoint["addresses"][0] for endpoint in endpoints if endpoint.get("hostname") == host]


def answer(query, server, context):
    at, labels = 12, []
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode())
        at += 1 + query[at]
    question = query[12 : at + 5]
    kind = struct.unpack(">H", query[at + 1 : at + 3])[0]
    found = addresses(".".join(labels), server, context)
    records = b"".join(
        b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 1, 4) + socket.inet_aton(address) for address in found if kind == 1
    )
    flags = 0x8580 if found else 0x8583  # authoritative; "no such name" where there is none of any kind
    header = query[:2] + struct.pack(">HHHHH", flags, 1, len(found) if kind == 1 else 0, 0, 0)
    return header + question + records


def main():
    address, server, ca, certificate, key = sys.argv[1:]
    context = ssl.create_default_context(cafile=ca)
    context.load_cert_chain(certificate, key)
    listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener.bind((address, 53))
    while True:
        query, client = listener.recvfrom(512)
        try:
            listener.sendto(answer(query, server, context), client)
        except Exception as error:  # who asks will ask again
            print(error, file=sys.stderr, flush=True)


main()
