"""A driver for pystalk."""

from pystalk import BeanstalkClient
from pystalk.client import Job


def argument(word):
    return bytes.fromhex(word[1:]) if word[0] == "x" else float(word) if "." in word else int(word)


def written(found):
    found = [found.job_id, found.job_data] if isinstance(found, Job) else found
    if isinstance(found, dict):
        found = sum(found.items(), ())
    if isinstance(found, (list, tuple)):
        return " ".join(map(written, found))
    if type(found) is int:
        return str(found)
    return "x" + (found if isinstance(found, bytes) else str(found).encode()).hex()


def put(status, id):
    return id if status == b"INSERTED" else "buried"


OPERATIONS = {
    "put": lambda pri, delay, ttr, body: put(*client.put_job(body, pri, delay, ttr)),
    "use": lambda tube: client.use(tube.decode()),
    "reserve-with-timeout": lambda seconds: client.reserve_job(seconds),
    "delete": lambda id: client.delete_job(id),
    "release": lambda id, pri, delay: client.release_job(id, pri, delay) == b"BURIED" and "buried",
    "bury": lambda id, pri: client.bury_job(id, pri) and None,
    "watch": lambda tube: client.watch(tube.decode()),
    "ignore": lambda tube: client.ignore(tube.decode()),
    "peek-ready": lambda: client.peek_ready(),
    "peek-delayed": lambda: client.peek_delayed(),
    "peek-buried": lambda: client.peek_buried(),
    "kick": lambda bound: client.kick_jobs(bound)[1],
    "kick-job": lambda id: client.kick_job(id),
    "stats-job": lambda id: client.stats_job(id),
    "stats-tube": lambda tube: client.stats_tube(tube.decode()),
    "stats": lambda: client.stats(),
    "list-tubes": lambda: client.list_tubes(),
    "pause-tube": lambda tube, delay: client.pause_tube(tube.decode(), delay) and None,
}
for line in open(0):
    number, name, *words = line.split()
    answer = "unsupported"
    try:
        if name == "connect":
            client, answer = BeanstalkClient(words[0], int(words[1]), socket_timeout=1.5), "ok"
        elif name in OPERATIONS:
            found = OPERATIONS[name](*map(argument, words))
            answer = found if found in ("none", "buried") else f"ok {written(found or ())}"
    except Exception as error:
        answer = f"error {type(error).__name__} {error}"
    print("@beanstalk", number, answer, flush=True)
