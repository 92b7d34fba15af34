"""Certificates for loopback, made by openssl."""

import shutil
import subprocess

OPENSSL = shutil.which("openssl")


def make_certificates(folder):
    """(ca, certificate, key) of an authority of our own and a server at 127.0.0.1, called broker.test."""

    def run(*words):
        subprocess.run([OPENSSL, *map(str, words)], check=True, capture_output=True)

    ca, ca_key = folder / "ca.pem", folder / "ca.key"
    key, request, certificate = folder / "server.key", folder / "server.csr", folder / "server.pem"
    names = folder / "names.cnf"
    names.write_text("subjectAltName=DNS:broker.test\n")
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    run("req", "-x509", *curve, "-keyout", ca_key, "-out", ca, "-subj", "/CN=test authority", "-days", 2)
    run("req", *curve, "-keyout", key, "-out", request, "-subj", "/CN=broker.test")
    run("x509", "-req", "-in", request, "-CA", ca, "-CAkey", ca_key, "-CAcreateserial", "-out", certificate,
        "-days", 2, "-extfile", names)  # fmt: skip
    return ca, certificate, key
