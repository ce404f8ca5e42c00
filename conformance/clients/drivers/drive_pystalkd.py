"""A driver for pystalkd."""

from pystalkd.Beanstalkd import Connection
from pystalkd.Job import Job


def argument(word):
    return bytes.fromhex(word[1:]) if word[0] == "x" else float(word) if "." in word else int(word)


def written(found):
    found = [found.job_id, found.body] if isinstance(found, Job) else found
    if isinstance(found, dict):
        found = sum(found.items(), ())
    if isinstance(found, (list, tuple)):
        return " ".join(map(written, found))
    if type(found) is int:
        return str(found)
    return "x" + (found if isinstance(found, bytes) else str(found).encode()).hex()


OPERATIONS = {
    "put": lambda pri, delay, ttr, body: client.put_bytes(body, pri, delay, ttr),
    "use": lambda tube: client.use(tube.decode()),
    "reserve": lambda: client.reserve_bytes() or "none",
    "reserve-with-timeout": lambda seconds: client.reserve_bytes(seconds) or "none",
    "delete": lambda id: client.delete(id),
    "release": lambda id, pri, delay: client.release(id, pri, delay),
    "bury": lambda id, pri: client.bury(id, pri),
    "touch": lambda id: client.touch(id),
    "watch": lambda tube: client.watch(tube.decode()),
    "ignore": lambda tube: client.ignore(tube.decode()),
    "peek": lambda id: client.peek(id) or "none",
    "peek-ready": lambda: client.peek_ready() or "none",
    "peek-delayed": lambda: client.peek_delayed() or "none",
    "peek-buried": lambda: client.peek_buried() or "none",
    "kick": lambda bound: client.kick(bound),
    "kick-job": lambda id: client.kick_job(id),
    "stats-job": lambda id: client.stats_job(id),
    "stats-tube": lambda tube: client.stats_tube(tube.decode()),
    "stats": lambda: client.stats(),
    "list-tubes": lambda: client.tubes(),
    "list-tube-used": lambda: client.using(),
    "list-tubes-watched": lambda: client.watching(),
    "pause-tube": lambda tube, delay: client.pause_tube(tube.decode(), delay),
}
for line in open(0):
    number, name, *words = line.split()
    answer = "unsupported"
    try:
        if name == "connect":
            client, answer = Connection(words[0], int(words[1])), "ok"
        elif name in OPERATIONS:
            found = OPERATIONS[name](*map(argument, words))
            answer = found if found in ("none", "buried") else f"ok {written(found or ())}"
    except Exception as error:
        answer = f"error {type(error).__name__} {error}"
    print("@beanstalk", number, answer, flush=True)
