-- evict: an operator ends a claim.
-- ARGV: (run id, start,) the first twelve digits of its id, or those of the SHA-1 of a stranger's value.
-- Answers: time, then 1 when there was such a claim and 0 when there was not. It walks the line; nobody else does.
local public = ARGV[3]
local found = 0

-- A mark says what it said before, and evicted.
local function evicted(mark)
  return (mark == 'l' or mark == 'b') and 'b' or 'e'
end

local value = redis.call('GET', holder)
if value then
  local owner, mark = ours(value)
  if owner and string.sub(owner, 1, 12) == public then
    -- Its place stays taken until it withdraws or its lease is over. SETRANGE leaves the time to live as it is.
    redis.call('SETRANGE', holder, 32, evicted(mark))
    found = 1
  elseif not owner and string.sub(redis.sha1hex(value), 1, 12) == public then
    redis.call('DEL', holder)
    found = 1
  end
end
sweep()
for _, id in ipairs(redis.call('ZRANGE', leases, 0, -1)) do
  local record = string.sub(id, 1, 12) == public and find(id)
  if record then
    found = 1
    record.mark = evicted(record.mark)
    if record.state == 'W' then
      redis.call('ZREM', waiters, record.arrival .. id)
      record.state = 'A'
      tell(record, id)
    end
    write(id, record)
  end
end
admit()
return {micros, found}
