-- withdraw, the short way: the holder of a mutex that nobody waits for.
-- ARGV: (run id, start,) id. Answers: time, then 1 when the claim was there and 0 when it was not.
local id = ARGV[3]
local value = redis.call('GET', holder)
-- The mark behind the id tells our value from a stranger's that begins with the same digits.
local held = value and string.sub(value, 1, 32) == id and string.find(value, '^[-elb] ', 33) ~= nil
if held then
  redis.call('DEL', holder)
end
if redis.call('EXISTS', leases) == 0 then
  return {micros, held and 1 or 0}
end
