-- claim, the short way: a mutex that nobody has and nobody waits for. Two keys are looked at and two are written.
-- ARGV: (run id, start,) id, capacity, weight, priority, patience (0 none, 1 waits, 2 barges), ttl, floor, lingers,
-- channel, about
-- Answers: time, then
--   0, token | 1, ahead, waiters ahead, time until a lease ends or -1, by a stranger | 2 refused
--   3, capacity in use | 4, weight in use | 5, how long nothing is given away
local id, capacity, weight, priority = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local patience, ttl, floor, lingers = ARGV[7], tonumber(ARGV[8]), tonumber(ARGV[9]), ARGV[10] == '1'
local channel, about = ARGV[11], ARGV[12]

local value = redis.call('GET', holder)
if capacity == 1 and not value and redis.call('EXISTS', leases) == 0 and quiet(ttl) == 0 then
  next_token(floor)
  local taken = holder_value(id, lingers and 'l' or '-', token, now, priority, about)
  redis.call('SET', holder, taken, 'PX', ttl)
  return {micros, 0, token}
end
