INSERT INTO {claims} (id, name, state, turn, arrived, weight, capacity, token, lease_end, since, evicted, lingers, owner, note)
VALUES ({id}, {name}, {state}, {turn}, {arrived}, {weight}, {capacity}, {token},
        UTC_TIMESTAMP(6) + INTERVAL {ttl} MICROSECOND, UTC_TIMESTAMP(6), FALSE, {lingers}, {owner}, {note});
