-- A driver of haricot, in Lua; LUA_PATH must find the library.
local haricot = require("haricot")
local client, MISFIT = nil, {}

local function bytes(word)
    return (word:sub(2):gsub("..", function(digits) return string.char(tonumber(digits, 16)) end))
end
local function number(word) -- an integer of more than 63 bits would become another number
    local found = tonumber(word)
    return math.type(found) == "float" and not word:find(".", 1, true) and error(MISFIT) or found
end
local function hex(text)
    return "x" .. text:gsub(".", function(byte) return string.format("%02x", byte:byte()) end)
end
local function failed(err)
    return err == MISFIT and "unsupported" or "error " .. tostring(err):gsub("%s+", " ")
end
local function done(ok, err) return ok and "ok" or failed(err) end
local function count(ok, value) return ok and string.format("ok %.0f", value) or failed(value) end
local function text(ok, value) return ok and "ok " .. hex(value) or failed(value) end
local function job(ok, found)
    if not ok then return failed(found) end
    return found and string.format("ok %.0f %s", found.id, hex(found.data)) or "none"
end

local operations = {
    connect = function(host, port)
        local ok, err
        client, ok, err = haricot.new(host, number(port))
        return done(ok, err)
    end,
}
local function add(names, answer, ...) -- each operation converts its arguments, and its results
    local converters = {...}
    for name in names:gmatch("%S+") do
        local method = name:gsub("-", "_")
        operations[name] = function(...)
            local arguments = {...}
            for n, word in ipairs(arguments) do arguments[n] = converters[n](word) end
            return answer(client[method](client, table.unpack(arguments)))
        end
    end
end
add("put", count, number, number, number, bytes)
add("reserve reserve-with-timeout peek peek-ready peek-delayed peek-buried", job, number)
add("delete release bury touch kick-job", done, number, number, number)
add("use pause-tube", done, bytes, number)
add("kick", count, number)
add("watch ignore", count, bytes)
add("stats stats-job list-tubes list-tubes-watched list-tube-used", text, number)
add("stats-tube", text, bytes)

for line in io.lines() do
    local id, operation, rest = line:match("^(%d+) (%S+)(.*)$")
    local words = {}
    for word in rest:gmatch("%S+") do words[#words + 1] = word end
    local run = operations[operation] or function() return "unsupported" end
    local ok, result = pcall(run, table.unpack(words))
    io.write("@beanstalk ", id, " ", ok and result or failed(result), "\n"):flush()
end
