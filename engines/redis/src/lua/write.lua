-- write: one cell. KEYS: the cell. ARGV: (run id, start,) id of the write, value, version or nothing, token or nothing.
-- Answers: 0, new version | 1, other version | 2, newest token
-- A cell is a hash: v version, t newest token seen, d value, w id of the last write.
local cell = KEYS[1]
local id, value, if_version, token = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local stored = redis.call('HMGET', cell, 'v', 't', 'w')
local version, newest, last = stored[1] or '0', stored[2] or '0', stored[3]

-- Tokens are any 64 bits, and Lua counts only to 53: they are compared as they are written.
local function older(a, b)
  return #a < #b or (#a == #b and a < b)
end

if last == id then
  return {0, version}
end
if token ~= '' and older(token, newest) then
  return {2, newest}
end
if if_version ~= '' and if_version ~= version then
  return {1, version}
end
redis.call('HSET', cell, 'd', value, 'w', id, 't', token ~= '' and token or newest)
return {0, string.format('%.0f', redis.call('HINCRBY', cell, 'v', 1))}
