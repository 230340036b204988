"""A program of somebody else: redis-py's Lock, told what to do by its standard input."""

import sys
import time

import redis
from redis.exceptions import LockError

client = redis.Redis.from_url(sys.argv[1])
lock = client.lock(sys.argv[2], timeout=2, sleep=0.002)

for line in sys.stdin:
    word, *rest = line.split()
    if word == "try":
        answer = "granted" if lock.acquire(blocking=False) else "refused"
    elif word == "release":
        try:
            # What a careless program does: it does not ask whether it has the lock.
            lock.local.token = lock.local.token or b"a token that never was"
            lock.release()
            answer = "released"
        except LockError:
            answer = "not mine"
    elif word == "count":
        counter, times = rest[0], int(rest[1])
        for _ in range(times):
            with client.lock(sys.argv[2], timeout=10, sleep=0.002):
                seen = int(client.get(counter))
                time.sleep(0.0005)
                client.set(counter, seen + 1)
        answer = "counted"
    print(answer, flush=True)
