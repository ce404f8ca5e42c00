-- A tiny client, for the template of a driver.
local socket = require("socket")
local Client = {}
Client.__index = Client

local function new(host, port) return setmetatable({socket = socket.connect(host, port)}, Client) end

function Client:call(expected, request)
    self.socket:send(request .. "\r\n")
    local line = self.socket:receive("*l")
    local word, first, last = line:match("^(%S+) ?(%S*) ?(%S*)$")
    if word ~= expected then error(line) end
    return first, last
end

function Client:put(body, pri, delay, ttr)
    local request = table.concat({"put", pri, delay, ttr, #body}, " ")
    return (self:call("INSERTED", request .. "\r\n" .. body))
end

function Client:reserve()
    local id, size = self:call("RESERVED", "reserve")
    return {id = id, body = self.socket:receive(size + 2):sub(1, -3)}
end

function Client:delete(id) return self:call("DELETED", "delete " .. id) end

return {new = new}
