"""A driver for pystalkd."""

import sys

from pystalkd.Beanstalkd import Connection

client = None


def number(word):
    return float(word) if "." in word else int(word)


def raw(word):
    return bytes.fromhex(word[1:])


def text(word):
    return raw(word).decode()


def hexed(value):
    return "x" + (value if isinstance(value, bytes) else str(value).encode()).hex()


def job(found):
    return None if found is None else [found.job_id, hexed(found.body)]


def pairs(stats):
    return [hexed(word) for pair in stats.items() for word in pair]


def connect(host, port):
    global client
    client = Connection(host, int(port))
    return []


OPERATIONS = {
    "connect": connect,
    "put": lambda p, d, t, b: [client.put_bytes(raw(b), number(p), number(d), number(t))],
    "use": lambda tube: client.use(text(tube)) or [],
    "reserve": lambda: job(client.reserve_bytes()),
    "reserve-with-timeout": lambda seconds: job(client.reserve_bytes(number(seconds))),
    "delete": lambda id: client.delete(number(id)) or [],
    "release": lambda id, *w: client.release(number(id), *map(number, w)) or [],
    "bury": lambda id, pri: client.bury(number(id), number(pri)) or [],
    "touch": lambda id: client.touch(number(id)) or [],
    "watch": lambda tube: [client.watch(text(tube))],
    "ignore": lambda tube: [client.ignore(text(tube))],
    "peek": lambda id: job(client.peek(number(id))),
    "peek-ready": lambda: job(client.peek_ready()),
    "peek-delayed": lambda: job(client.peek_delayed()),
    "peek-buried": lambda: job(client.peek_buried()),
    "kick": lambda count: [client.kick(number(count))],
    "kick-job": lambda id: client.kick_job(number(id)) or [],
    "stats-job": lambda id: pairs(client.stats_job(number(id))),
    "stats-tube": lambda tube: pairs(client.stats_tube(text(tube))),
    "stats": lambda: pairs(client.stats()),
    "list-tubes": lambda: map(hexed, client.tubes()),
    "list-tube-used": lambda: [hexed(client.using())],
    "list-tubes-watched": lambda: map(hexed, client.watching()),
    "pause-tube": lambda tube, delay: client.pause_tube(text(tube), number(delay)) or [],
}
for line in sys.stdin:
    count, name, *words = line.split()
    try:
        answer = "unsupported"
        if name in OPERATIONS:
            values = OPERATIONS[name](*words)
            answer = "none" if values is None else " ".join(map(str, ["ok", *values]))
    except Exception as error:
        answer = f"error {type(error).__name__}"
    print("@beanstalk", count, answer, flush=True)
