"""A driver for a client library in Python: replace LIBRARY and its calls."""

from LIBRARY import Client


def argument(word):
    return bytes.fromhex(word[1:]) if word[0] == "x" else float(word) if "." in word else int(word)


def reserve():
    job = client.reserve()
    return f"ok {job.id} x{job.body.hex()}"


OPERATIONS = {
    "put": lambda pri, delay, ttr, body: f"ok {client.put(body, pri, delay, ttr)}",
    "reserve": reserve,
    "delete": lambda id: client.delete(id) or "ok",
}
for line in open(0):
    number, name, *words = line.split()
    answer = "unsupported"
    try:
        if name == "connect":
            client, answer = Client(words[0], int(words[1])), "ok"
        elif name in OPERATIONS:
            answer = OPERATIONS[name](*map(argument, words))
    except Exception as error:
        answer = f"error {type(error).__name__} {error}"
    print("@beanstalk", number, answer, flush=True)
