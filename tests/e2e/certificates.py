"""Certificates in PEM files, made by the program openssl."""

import os
import subprocess

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def _openssl(*arguments):
    subprocess.run(("openssl", *arguments), check=True, capture_output=True, timeout=60)


class Authority:
    """A certificate authority. `ca` is its own certificate; all files are in the folder."""

    def __init__(self, folder, name="ca"):
        self.folder, self.ca, self.key = folder, f"{folder}/{name}.crt", f"{folder}/{name}.key"
        _openssl("req", "-x509", *KEY, "-keyout", self.key, "-out", self.ca, "-subj", f"/CN={name}", "-days", "30")

    def make(self, name, unit="", days=30, host="127.0.0.1"):
        """Makes a certificate and a key with this name, in place of earlier ones; returns their paths."""
        certificate, key, request = (f"{self.folder}/{name}.{end}" for end in ("crt", "key", "csr"))
        subject = (f"/OU={unit}" if unit else "") + f"/CN={name}"
        _openssl("req", "-new", *KEY, "-keyout", key, "-out", request, "-subj", subject)
        with open(f"{self.folder}/{name}.ext", "w", encoding="ascii") as file:
            file.write(f"basicConstraints=CA:FALSE\nsubjectAltName=IP:{host}\n")
        signing = ("-CA", self.ca, "-CAkey", self.key, "-extfile", file.name, "-days", str(days))
        _openssl("x509", "-req", "-in", request, "-out", certificate + ".new", *signing)
        os.replace(certificate + ".new", certificate)
        return certificate, key
