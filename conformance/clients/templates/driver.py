"""A driver for a client library in Python: replace the lines with LIBRARY."""

import sys

from LIBRARY import Client

client = None


def number(word):
    return float(word) if "." in word else int(word)


def body(word):
    return bytes.fromhex(word[1:])


def do(operation, *words):
    global client
    if operation == "connect":
        client = Client(words[0], int(words[1]))
    elif operation == "put":
        pri, delay, ttr = map(number, words[:3])
        return [client.put(body(words[3]), pri, delay, ttr)]
    elif operation == "reserve":
        job = client.reserve()
        return [job.id, "x" + job.body.hex()]
    elif operation == "delete":
        client.delete(number(words[0]))
    else:
        return None
    return []


for line in sys.stdin:
    count, *question = line.split()
    try:
        values = do(*question)
        answer = "unsupported" if values is None else " ".join(map(str, ["ok", *values]))
    except Exception as error:
        answer = f"error {type(error).__name__}"
    print("@beanstalk", count, answer, flush=True)
