<?php
// A driver for pheanstalk.
require_once "Pheanstalk/autoload.php";
use Pheanstalk\{Job, JobId, Pheanstalk};
function argument(string $word) {
    return $word[0] === "x" ? hex2bin(substr($word, 1)) : (substr_count($word, ".") > 1 ? $word : $word + 0);
}

function client(): Pheanstalk { return $GLOBALS["client"]; }
function written($found): string {
    if ($found instanceof Job) return $found->getId() . " x" . bin2hex($found->getData());
    if (is_array($found)) return implode(" ", array_map("written", $found));
    return is_int($found) ? "$found" : "x" . bin2hex($found ?? "");
}

function pairs($stats): array {
    foreach ($stats as $key => $value) $words[] = [(string)$key, (string)$value];
    return $words ?? [];
}

$operations = [
    "connect" => function (...$address) { $GLOBALS["client"] = Pheanstalk::create(...$address); },
    "put" => fn($pri, $delay, $ttr, $body) => client()->put($body, $pri, $delay, $ttr)->getId(),
    "use" => fn($tube) => client()->useTube($tube) ? [] : [],
    "reserve" => fn() => client()->reserve(),
    "reserve-with-timeout" => fn($seconds) => client()->reserveWithTimeout($seconds) ?? "none",
    "delete" => fn($id) => client()->delete(new JobId($id)),
    "release" => fn($id, $pri, $delay) => client()->release(new JobId($id), $pri, $delay),
    "bury" => fn($id, $pri) => client()->bury(new JobId($id), $pri),
    "touch" => fn($id) => client()->touch(new JobId($id)),
    "watch" => fn($tube) => client()->watch($tube) ? [] : [],
    "ignore" => fn($tube) => client()->ignore($tube) ? [] : [],
    "peek" => fn($id) => client()->peek(new JobId($id)),
    "peek-ready" => fn() => client()->peekReady() ?? "none",
    "peek-delayed" => fn() => client()->peekDelayed() ?? "none",
    "peek-buried" => fn() => client()->peekBuried() ?? "none",
    "kick" => fn($bound) => client()->kick($bound),
    "kick-job" => fn($id) => client()->kickJob(new JobId($id)),
    "stats-job" => fn($id) => pairs(client()->statsJob(new JobId($id))),
    "stats-tube" => fn($tube) => pairs(client()->statsTube($tube)),
    "stats" => fn() => pairs(client()->stats()),
    "list-tubes" => fn() => client()->listTubes(),
    "list-tube-used" => fn() => [client()->listTubeUsed(true)],
    "list-tubes-watched" => fn() => array_map("strval", client()->listTubesWatched(true)),
    "pause-tube" => fn($tube, $delay) => client()->pauseTube($tube, $delay),
];
while (($line = fgets(STDIN)) !== false) {
    [$number, $name] = $words = explode(" ", rtrim($line));
    $answer = "unsupported";
    try {
        $arguments = array_map("argument", array_slice($words, 2));
        if (isset($operations[$name]) && max([0, ...array_filter($arguments, "is_float")]) < 2 ** 63) {
            $found = $operations[$name](...$arguments);
            $answer = $found === "none" ? $found : "ok " . written($found ?? []);
        }
    } catch (Throwable $error) {
        $answer = "error " . get_class($error) . " " . strtr($error->getMessage(), "\r\n", "  ");
    }
    echo "@beanstalk $number $answer\n";
}
