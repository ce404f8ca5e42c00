"""Where the reference server differs from beanstalkd: both sides of each entry are run."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml

from conformance.target.address import connect
from conformance.target.launch import Launched
from tests.servers import BEANSTALKD_COMMAND, REFERENCE_COMMAND, needs_beanstalkd

ALL = yaml.safe_load(Path(__file__).with_name("quirks.yaml").read_text())
QUIRKS = [quirk for quirk in ALL if "send" in quirk]


def _bytes(text: str) -> bytes:
    repeated = re.sub(r"\{(.)\*(\d+)\}", lambda match: match[1] * int(match[2]), text)
    return repeated.encode("latin-1")


def _converse(server: Launched, quirk: Any) -> bytes:
    with connect(server.address, 5) as first, connect(server.address, 5) as second:
        first.sendall(_bytes(quirk["send"]))
        last = first
        if "then" in quirk:
            last = second
            # Answered after what the first client has sent was read.
            for _ in range(3):
                second.sendall(b"list-tube-used\r\n")
                second.recv(100)
            second.sendall(_bytes(quirk["then"]))
        last.shutdown(socket.SHUT_WR)
        answer = b""
        while data := last.recv(4096):
            answer += data
        return answer


@needs_beanstalkd
@pytest.mark.parametrize("quirk", QUIRKS, ids=lambda quirk: quirk["name"])
def test_a_quirk_is_as_described(quirk: Any) -> None:
    with Launched(BEANSTALKD_COMMAND) as server:
        assert _converse(server, quirk) == _bytes(quirk["beanstalkd"])
    with Launched(f"{REFERENCE_COMMAND} --profile 1.12") as server:
        assert _converse(server, quirk) == _bytes(quirk["reference"])
