-- renew: many leases at once. KEYS: counter, then holder, claims, waiters, leases of each claim.
-- ARGV: (run id, start,) then id, ttl, lingers of each claim.
-- Answers: time, then for each claim 1 when it was renewed and 0 when it is gone.

-- A mutex: Redis keeps the lease.
local function renew_holder(mark, ttl, lingers)
  if mark == '-' then
    redis.call('PEXPIRE', holder, ttl)
    if lingers then
      redis.call('SETRANGE', holder, 32, 'l')
    end
  end
  return (mark == '-' or mark == 'l') and 1 or 0
end

local looked_at = nil

local function renew(id, ttl, lingers)
  local value = redis.call('GET', holder)
  local owner, mark = nil, nil
  if value then
    owner, mark = ours(value)
  end
  if owner == id then
    return renew_holder(mark, ttl, lingers)
  end
  local record = find(id)
  if not record or record.state == 'A' or record.mark == 'e' or record.mark == 'b' then
    return 0
  end
  if record.mark == '-' then
    lease(id, now + ttl)
    if lingers then
      record.mark = 'l'
      write(id, record)
    end
  end
  -- Whoever waits also looks whether a holder's lease is over: nobody else may come by.
  if looked_at ~= leases then
    looked_at = leases
    sweep()
    admit()
  end
  return 1
end

counter = KEYS[1]
local answers = {micros}
for at = 0, (#ARGV - 2) / 3 - 1 do
  holder, claims, waiters, leases = KEYS[at * 4 + 2], KEYS[at * 4 + 3], KEYS[at * 4 + 4], KEYS[at * 4 + 5]
  answers[at + 2] = renew(ARGV[at * 3 + 3], tonumber(ARGV[at * 3 + 4]), ARGV[at * 3 + 5] == '1')
end
return answers
