-- A claim was sent again. One that lingers is left as it is, and one that an operator ended is renewed no more.
UPDATE {claims} SET weight = {weight}, token = {token}, lease_end = UTC_TIMESTAMP(6) + INTERVAL {ttl} MICROSECOND, lingers = {lingers}
WHERE id = {id} AND NOT evicted AND NOT lingers;
