"""A program of somebody else: kazoo's locks, told what to do by its standard input."""

import sys
import time

from kazoo.client import KazooClient

hosts, path, kind = sys.argv[1:4]
client = KazooClient(hosts=hosts, timeout=5)
client.start()
# Told of our names, as kazoo's own documentation says for locks of other programs.
lock = {
    "lock": lambda: client.Lock(path, "peer", extra_lock_patterns=["-lock-"]),
    "read": lambda: client.ReadLock(path, "peer", extra_lock_patterns=["-__WRIT__"]),
    "write": lambda: client.WriteLock(path, "peer", extra_lock_patterns=["-__READ__", "-__WRIT__"]),
}[kind]()

for line in sys.stdin:
    word, *rest = line.split()
    if word == "hello":
        answer = "hello"
    elif word == "try":
        answer = "granted" if lock.acquire(blocking=False) else "refused"
    elif word == "lock":
        answer = "granted" if lock.acquire(timeout=20) else "refused"
    elif word == "release":
        lock.release()
        answer = "released"
    elif word == "count":
        counter, times = rest[0], int(rest[1])
        for _ in range(times):
            with lock:
                seen = int(client.get(counter)[0])
                time.sleep(0.0005)
                client.set(counter, str(seen + 1).encode())
        answer = "counted"
    elif word == "look":
        # Whoever writes meanwhile is seen: the counter is another one the second time.
        counter, times, seen = rest[0], int(rest[1]), set()
        for _ in range(times):
            with lock:
                before = client.get(counter)[0]
                time.sleep(0.002)
                seen.add(before)
                if client.get(counter)[0] != before:
                    seen.add("changed")
        answer = "changed" if "changed" in seen else f"saw {len(seen)}"
    print(answer, flush=True)
