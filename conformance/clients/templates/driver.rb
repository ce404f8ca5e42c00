# A driver for a client library in Ruby: replace LIBRARY and its calls.
require "LIBRARY"

$stdout.sync = true

def argument(word)
  return [word[1..]].pack("H*") if word.start_with?("x")
  word.include?(".") ? word.to_f : word.to_i
end

operations = {
  "put" => ->(pri, delay, ttr, body) { "ok #{$client.put(body, pri, delay, ttr)}" },
  "reserve" => -> { $client.reserve.then { |job| "ok #{job.id} x#{job.body.unpack1("H*")}" } },
  "delete" => ->(id) { $client.delete(id) && "ok" },
}
while (line = $stdin.gets)
  number, name, *words = line.split
  begin
    answer = "unsupported"
    if name == "connect"
      $client = Client.new(words[0], Integer(words[1]))
      answer = "ok"
    elsif operations.key?(name)
      answer = operations[name].call(*words.map { |word| argument(word) })
    end
  rescue StandardError => error
    answer = "error #{error.class} #{error.message}"
  end
  puts "@beanstalk #{number} #{answer}"
end
