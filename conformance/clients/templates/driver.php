<?php
// A driver for a client library in PHP: replace LIBRARY and its calls.
require_once "LIBRARY.php";

function argument(string $word) {
    return $word[0] === "x" ? hex2bin(substr($word, 1)) : $word + 0;
}

function answer(string $name, array $words): string {
    global $client;
    if ($name === "connect") {
        $client = new Client($words[0], (int)$words[1]);
        return "ok";
    }
    $words = array_map("argument", $words);
    if ($name === "put") return "ok " . $client->put($words[3], $words[0], $words[1], $words[2]);
    if ($name === "reserve") return "ok " . implode(" x", [($job = $client->reserve())->id, bin2hex($job->body)]);
    if ($name === "delete") return $client->delete($words[0]) ? "ok" : "false";
    return "unsupported";
}

while (($line = fgets(STDIN)) !== false) {
    $words = explode(" ", rtrim($line));
    try {
        $answer = answer($words[1], array_slice($words, 2));
    } catch (Throwable $error) {
        $answer = "error " . get_class($error) . " " . $error->getMessage();
    }
    echo "@beanstalk $words[0] $answer\n";
}
