"""Checks of the path to the master: its name, its port, and the packet size."""

from __future__ import annotations

import errno
import socket
import struct
import sys
from dataclasses import dataclass, field
from typing import Any, List, Optional, Tuple

from .._lazy import Lazy
from ._finding import Finding, bad, note, ok

_fcntl: Any = Lazy("fcntl")  # available on Unix only

DEFAULT_PORT = 48148
_CONNECT_S = 5.0
_IP_MTU, _IPV6_MTU = 14, 24  # socket options of Linux, which Python does not define
_SIOCGIFADDR, _SIOCGIFMTU = 0x8915, 0x8921
_MTU_MIN = 1280


@dataclass
class Reached:
    findings: List[Finding] = field(default_factory=list)
    address: str = ""  # the master's address; "" if it was not reached
    own_address: str = ""  # this machine's address on that path


def split(text: str) -> Tuple[str, int]:
    """Splits 'host', 'host:port', '[v6]' or '[v6]:port' into host and port. Raises ValueError if it is invalid."""
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        is_right = bool(closed) and (not rest or rest.startswith(":"))
        port = rest[1:]
    else:
        host, _, port = text.partition(":")
        is_right = ":" not in port
    if not is_right or not host or not (port or text[-1:] != ":"):
        raise ValueError(f"{text!r} is not an address: expected host, host:port or [v6]:port")
    if port and not (port.isdecimal() and 0 < int(port) < 65536):
        raise ValueError(f"{port!r} of {text!r} is not a port")
    return host, int(port) if port else DEFAULT_PORT


def _resolve(host: str, port: int, findings: List[Finding]) -> List[Tuple[int, str]]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        reason = error.strerror if isinstance(error, socket.gaierror) else "not a valid name"
        mend = f"use the master's address, or add the line 'ADDRESS {host}' to /etc/hosts"
        findings.append(bad("name", f"{host} has no address: {reason}", mend))
        return []
    places = [(int(family), str(place[0])) for family, _, _, _, place in found]
    addresses = list(dict.fromkeys(places))
    texts = ", ".join(address for _, address in addresses)
    if host not in ("localhost", *(address for _, address in addresses)):
        if all(address.startswith("127.") or address == "::1" for _, address in addresses):
            mend = f"on all machines but the master's: correct the line for {host} in /etc/hosts"
            findings.append(note("name", f"{host} is {texts}, this machine itself", mend))
        else:
            findings.append(ok("name", f"{host} is {texts}"))
    return addresses


def _why(error: OSError, host: str, port: int) -> Finding:
    if isinstance(error, (socket.timeout, TimeoutError)):
        text = f"no answer within {_CONNECT_S:.0f} s: a firewall drops packets, or the machine is down"
        mend = f"on the master's machine: nft add rule inet filter input tcp dport {port} accept"
    elif error.errno == errno.ECONNREFUSED:
        text = f"{host} answers, but no program listens on port {port}"
        mend = f"on the master's machine: pccl-master --listen '[::]:{port}'"
    else:
        text, mend = f"{host} cannot be reached: {error.strerror or error}", "check both machines' routes: ip route"
    return bad("port", text, mend)


def _interface_mtu(own_address: str) -> Optional[int]:
    """Returns the MTU of the interface with this address; None if it is unknown."""
    if not sys.platform.startswith("linux"):
        return None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            try:
                place = _fcntl.ioctl(asker, _SIOCGIFADDR, request)
                if socket.inet_ntoa(place[20:24]) == own_address:
                    return int(struct.unpack("16si", _fcntl.ioctl(asker, _SIOCGIFMTU, request)[:20])[1])
            except OSError:
                continue  # the interface has no address
    return None


def _packets(connection: socket.socket, own_address: str) -> List[Finding]:
    if not sys.platform.startswith("linux"):
        return []
    is_v6 = connection.family == socket.AF_INET6
    path = connection.getsockopt(*((socket.IPPROTO_IPV6, _IPV6_MTU) if is_v6 else (socket.IPPROTO_IP, _IP_MTU)))
    own = _interface_mtu(own_address) or path
    text = f"packets of {path} bytes reach the master"
    if path < _MTU_MIN:
        return [bad("mtu", f"only {text}", "raise the MTU of the interface: ip link set dev NAME mtu 1500")]
    if path < min(own, 65535):  # not for the loopback interface, whose MTU exceeds any packet
        return [note("mtu", f"{text}, but packets of {own} bytes leave this machine: the path has a smaller MTU")]
    return [ok("mtu", text)]


def examine(host: str, port: int) -> Reached:
    reached = Reached()
    failures = []
    for family, address in _resolve(host, port, reached.findings):
        connection = socket.socket(family, socket.SOCK_STREAM)
        with connection:
            connection.settimeout(_CONNECT_S)
            try:
                connection.connect((address, port))
            except OSError as error:
                failures.append(_why(error, address, port))
                continue
            reached.address, reached.own_address = address, connection.getsockname()[0]
            reached.findings.append(ok("port", f"{address}, port {port} answers"))
            reached.findings += _packets(connection, reached.own_address)
            break
    if not reached.address:
        reached.findings += failures
    return reached
