"""A tiny client, for the template of a driver."""

import socket
from types import SimpleNamespace


class Client:
    def __init__(self, host, port):
        self.file = socket.create_connection((host, port)).makefile("rwb")

    def call(self, expected, line, *body):
        self.file.write(b"".join(part + b"\r\n" for part in (line, *body)))
        self.file.flush()
        word, *values = self.file.readline().split()
        if word != expected:
            raise OSError(word)
        return values

    def put(self, body, pri, delay, ttr):
        line = f"put {pri} {delay} {ttr} {len(body)}".encode()
        return int(self.call(b"INSERTED", line, body)[0])

    def reserve(self):
        id, size = map(int, self.call(b"RESERVED", b"reserve"))
        return SimpleNamespace(id=id, body=self.file.read(size + 2)[:-2])

    def delete(self, id):
        self.call(b"DELETED", b"delete %d" % id)
