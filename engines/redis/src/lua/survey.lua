-- survey: everything about one lock, for people. Changes nothing.
-- Answers: time, value of the holder's key or nothing, the SHA-1 of it, its time to live, and both collections whole.
local value = false
if redis.call('TYPE', holder).ok == 'string' then
  value = redis.call('GET', holder)
end
return {
  micros, value, value and redis.sha1hex(value), redis.call('PTTL', holder), redis.call('HGETALL', claims),
  redis.call('ZRANGE', leases, 0, -1, 'WITHSCORES'),
}
