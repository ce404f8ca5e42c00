<?php
// A tiny client, for the template of a driver.
class Client {
    private $file;

    public function __construct(string $host, int $port) { $this->file = fsockopen($host, $port); }

    private function call(string $expected, string $request): array {
        fwrite($this->file, "$request\r\n");
        $words = explode(" ", rtrim(fgets($this->file)));
        if ($words[0] !== $expected) throw new Exception($words[0]);
        return $words;
    }

    public function put(string $body, $pri, $delay, $ttr): int {
        return (int)$this->call("INSERTED", "put $pri $delay $ttr " . strlen($body) . "\r\n$body")[1];
    }

    public function reserve(): object {
        [, $id, $size] = $this->call("RESERVED", "reserve");
        return (object)["id" => $id, "body" => substr(stream_get_contents($this->file, $size + 2), 0, -2)];
    }

    public function delete($id): array { return $this->call("DELETED", "delete $id"); }
}
