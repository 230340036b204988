"""kazoo's Lock from hand to hand: so many contenders, half of them in one client and half in another."""

import sys
import threading
import time

from kazoo.client import KazooClient

hosts, contenders, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
clients = [KazooClient(hosts=hosts) for _ in range(2)]
for client in clients:
    client.start()
waits, last, begin = [], [None], time.monotonic()


def contend(client):
    lock = client.Lock("/bench/kazoo")
    while time.monotonic() - begin < seconds:
        with lock:
            now = time.monotonic()
            if last[0] is not None:
                waits.append(now - last[0])
            last[0] = now


threads = [threading.Thread(target=contend, args=(clients[at % 2],)) for at in range(contenders)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
elapsed = time.monotonic() - begin
waits.sort()
print(len(waits) / elapsed, waits[(len(waits) - 1) * 99 // 100])
for client in clients:
    client.stop()
