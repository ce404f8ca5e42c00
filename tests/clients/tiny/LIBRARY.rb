# A tiny client, for the template of a driver.
require "socket"

class Client
  def initialize(host, port) = @socket = TCPSocket.new(host, port)

  def call(expected, request)
    @socket.write(request + "\r\n")
    word, *values = @socket.gets("\r\n").split
    raise IOError, word unless word == expected
    values
  end

  def put(body, pri, delay, ttr)
    call("INSERTED", "put #{pri} #{delay} #{ttr} #{body.bytesize}\r\n#{body}")[0]
  end

  def reserve
    id, size = call("RESERVED", "reserve")
    Struct.new(:id, :body).new(id, @socket.read(size.to_i + 2)[0...-2])
  end

  def delete(id) = call("DELETED", "delete #{id}")
end
