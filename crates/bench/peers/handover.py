"""Eight threads that take one lock in turns, with redis-py's Lock.

Arguments: URL, key, seconds, pause between two attempts in milliseconds or 0 for the default.
Says `ready`, begins when it is told to, and says of each turn when it was asked for, granted and released.
"""

import sys
import threading
import time

import redis

url, key, seconds, pause = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
client = redis.Redis.from_url(url)
client.ping()
options = {"sleep": pause / 1000} if pause else {}
turns = []


def take_turns(until):
    lock = client.lock(key, timeout=10, **options)
    while time.monotonic() < until:
        asked = time.monotonic_ns()
        lock.acquire()
        granted = time.monotonic_ns()
        time.sleep(0.001)
        released = time.monotonic_ns()
        lock.release()
        turns.append((asked, granted, released))


print("ready", flush=True)
sys.stdin.readline()
until = time.monotonic() + seconds
threads = [threading.Thread(target=take_turns, args=(until,)) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for turn in turns:
    print(*turn)
