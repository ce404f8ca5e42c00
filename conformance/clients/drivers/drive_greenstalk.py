"""A driver for greenstalk."""

from greenstalk import Client, Job


def argument(word):
    return bytes.fromhex(word[1:]) if word[0] == "x" else float(word) if "." in word else int(word)


def written(found):
    found = [found.id, found.body] if isinstance(found, Job) else found
    if isinstance(found, dict):
        found = sum(found.items(), ())
    if isinstance(found, (list, tuple)):
        return " ".join(map(written, found))
    if type(found) is int:
        return str(found)
    return "x" + (found if isinstance(found, bytes) else str(found).encode()).hex()


OPERATIONS = {
    "put": lambda pri, delay, ttr, body: client.put(body, pri, delay, ttr),
    "use": lambda tube: client.use(tube.decode()),
    "reserve": lambda: client.reserve(),
    "reserve-with-timeout": lambda seconds: client.reserve(seconds),
    "reserve-job": lambda id: client.reserve_job(id),
    "delete": lambda id: client.delete(id),
    "release": lambda id, pri, delay: client.release(Job(id, b""), pri, delay),
    "bury": lambda id, pri: client.bury(Job(id, b""), pri),
    "touch": lambda id: client.touch(Job(id, b"")),
    "watch": lambda tube: client.watch(tube.decode()),
    "ignore": lambda tube: client.ignore(tube.decode()),
    "peek": lambda id: client.peek(id),
    "peek-ready": lambda: client.peek_ready(),
    "peek-delayed": lambda: client.peek_delayed(),
    "peek-buried": lambda: client.peek_buried(),
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
            client, answer = Client((words[0], int(words[1])), encoding=None), "ok"
        elif name in OPERATIONS:
            answer = f"ok {written(OPERATIONS[name](*map(argument, words)) or ())}"
    except Exception as error:
        answer = f"error {type(error).__name__} {error}"
    print("@beanstalk", number, answer, flush=True)
