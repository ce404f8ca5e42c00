"""A driver for greenstalk."""

import sys

import greenstalk

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
    return [found.id, hexed(found.body)]


def pairs(stats):
    return [hexed(word) for pair in stats.items() for word in pair]


def connect(host, port):
    global client
    client = greenstalk.Client((host, int(port)), encoding=None)


OPERATIONS = {
    "connect": connect,
    "put": lambda pri, delay, ttr, b: [client.put(raw(b), number(pri), number(delay), number(ttr))],
    "use": lambda tube: client.use(text(tube)),
    "reserve": lambda: job(client.reserve()),
    "reserve-with-timeout": lambda seconds: job(client.reserve(number(seconds))),
    "reserve-job": lambda id: job(client.reserve_job(number(id))),
    "delete": lambda id: client.delete(number(id)),
    "release": lambda id, *w: client.release(greenstalk.Job(number(id), b""), *map(number, w)),
    "bury": lambda id, pri: client.bury(greenstalk.Job(number(id), b""), number(pri)),
    "touch": lambda id: client.touch(greenstalk.Job(number(id), b"")),
    "watch": lambda tube: [client.watch(text(tube))],
    "ignore": lambda tube: [client.ignore(text(tube))],
    "peek": lambda id: job(client.peek(number(id))),
    "peek-ready": lambda: job(client.peek_ready()),
    "peek-delayed": lambda: job(client.peek_delayed()),
    "peek-buried": lambda: job(client.peek_buried()),
    "kick": lambda count: [client.kick(number(count))],
    "kick-job": lambda id: client.kick_job(number(id)),
    "stats-job": lambda id: pairs(client.stats_job(number(id))),
    "stats-tube": lambda tube: pairs(client.stats_tube(text(tube))),
    "stats": lambda: pairs(client.stats()),
    "list-tubes": lambda: map(hexed, client.tubes()),
    "list-tube-used": lambda: [hexed(client.using())],
    "list-tubes-watched": lambda: map(hexed, client.watching()),
    "pause-tube": lambda tube, delay: client.pause_tube(text(tube), number(delay)),
}
for line in sys.stdin:
    count, name, *words = line.split()
    try:
        answer = "unsupported"
        if name in OPERATIONS:
            answer = " ".join(map(str, ["ok", *(OPERATIONS[name](*words) or ())]))
    except Exception as error:
        answer = f"error {type(error).__name__}"
    print("@beanstalk", count, answer, flush=True)
