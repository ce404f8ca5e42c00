-- A driver for a client library in Lua: replace LIBRARY and its calls.
local library = require("LIBRARY")
local client

local function bytes(word)
    return (word:sub(2):gsub("..", function(digits) return string.char(tonumber(digits, 16)) end))
end
local function hex(text)
    return "x" .. text:gsub(".", function(byte) return string.format("%02x", byte:byte()) end)
end

local operations = {
    connect = function(host, port) client = library.new(host, port); return "ok" end,
    put = function(pri, delay, ttr, body) return "ok " .. client:put(bytes(body), pri, delay, ttr) end,
    reserve = function()
        local job = client:reserve()
        return "ok " .. job.id .. " " .. hex(job.body)
    end,
    delete = function(id) return client:delete(id) and "ok" or "false" end,
}

for line in io.lines() do
    local number, name, rest = line:match("^(%d+) (%S+)(.*)$")
    local words, answer = {}, "unsupported"
    for word in rest:gmatch("%S+") do words[#words + 1] = word end
    local ok, result = pcall(operations[name] or function() return answer end, table.unpack(words))
    answer = ok and result or "error " .. tostring(result):gsub("%s+", " ")
    io.write("@beanstalk ", number, " ", answer, "\n"):flush()
end
