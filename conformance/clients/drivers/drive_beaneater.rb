# A driver for beaneater.
require "beaneater"
$stdout.sync = true

def argument(word)
  return [word[1..]].pack("H*") if word.start_with?("x")
  Integer(word, exception: false) || Float(word, exception: false) || word
end

def written(found)
  case found
  when nil then ""
  when Beaneater::Job then "#{found.id} x#{found.body.unpack1("H*")}"
  when Beaneater::StatStruct then written(found.to_h.transform_keys { |key| key.tr("_", "-") }.to_a)
  when Array then found.map { |one| written(one) }.join(" ")
  when Integer then found.to_s
  else "x" + found.to_s.unpack1("H*")
  end
end
def job(id) = Beaneater::Job.new($client, id: id, status: "RESERVED")
def said(reply, wanted) = reply[:status] == wanted ? reply[:id] && Integer(reply[:id]) : reply[:status].to_s.downcase.to_sym
def used = $client.tubes[$client.tubes.last_used]

OPERATIONS = {
  "connect" => ->(*address) { ($client = Beaneater.new(address.join(":"))) && nil },
  "put" => ->(pri, delay, ttr, body) { said(used.put(body, pri: pri, delay: delay, ttr: ttr), "INSERTED") },
  "use" => ->(tube) { $client.tubes.use(tube) && nil },
  "reserve" => -> { $client.tubes.reserve },
  "reserve-with-timeout" => ->(seconds) { $client.tubes.reserve(seconds) },
  "delete" => ->(id) { said(job(id).delete, "DELETED") },
  "release" => ->(id, pri, delay) { said(job(id).release(pri: pri, delay: delay), "RELEASED") },
  "bury" => ->(id, pri) { said(job(id).bury(pri: pri), "BURIED") },
  "touch" => ->(id) { said(job(id).touch, "TOUCHED") },
  "watch" => ->(tube) { $client.tubes.watch(tube) && nil },
  "ignore" => ->(tube) { $client.tubes.ignore(tube) && nil },
  "peek" => ->(id) { $client.jobs.peek(id) || :none },
  "peek-ready" => -> { used.peek(:ready) || :none },
  "peek-delayed" => -> { used.peek(:delayed) || :none },
  "peek-buried" => -> { used.peek(:buried) || :none },
  "kick" => ->(bound) { said(used.kick(bound), "KICKED") },
  "kick-job" => ->(id) { said(job(id).kick, "KICKED") },
  "stats-job" => ->(id) { job(id).stats || :none },
  "stats-tube" => ->(tube) { $client.tubes[tube].stats || :none },
  "stats" => -> { $client.stats.keys.flat_map { |key| [key.tr("_", "-"), $client.stats[key]] } },
  "list-tubes" => -> { $client.tubes.all.map(&:name) },
  "list-tube-used" => -> { $client.tubes.used.name },
  "list-tubes-watched" => -> { $client.tubes.watched.map(&:name) },
  "pause-tube" => ->(tube, delay) { said($client.tubes[tube].pause(delay), "PAUSED") },
}
while (line = $stdin.gets)
  number, name, *words = line.split
  begin
    next puts "@beanstalk #{number} unsupported" unless OPERATIONS.key?(name)
    found = OPERATIONS[name].call(*words.map { |word| argument(word) })
    answer = found.is_a?(Symbol) ? found.to_s.sub(/\A\z/, "nothing") : "ok #{written(found)}"
  rescue StandardError => error
    answer = "error #{error.class} #{error.message}"
  end
  puts "@beanstalk #{number} #{answer}"
end
