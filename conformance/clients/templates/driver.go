// A driver for a client library in Go: replace LIBRARY and its calls.
package main

import ("bufio"; "encoding/hex"; "fmt"; "os"; "strconv"; "strings")
import "LIBRARY"

var client *LIBRARY.Client

func number(word string) uint64 { found, err := strconv.ParseUint(word, 10, 64); if err != nil { panic("unsupported") }; return found }
func bytes(word string) []byte { found, _ := hex.DecodeString(word[1:]); return found }
func check(err error) { if err != nil { panic("error " + err.Error()) } }

func answer(words []string) (said any) {
	defer func() { if problem := recover(); problem != nil { said = problem } }()
	var err error
	switch words[1] {
	case "connect": client, err = LIBRARY.Dial(words[2] + ":" + words[3]); check(err); return "ok"
	case "put": id, err := client.Put(bytes(words[5]), number(words[2]), number(words[3]), number(words[4])); check(err); return fmt.Sprint("ok ", id)
	case "reserve": id, body, err := client.Reserve(); check(err); return fmt.Sprintf("ok %d x%x", id, body)
	case "delete": check(client.Delete(number(words[2]))); return "ok"
	}
	return "unsupported"
}
func main() {
	lines := bufio.NewScanner(os.Stdin); lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		fmt.Println("@beanstalk", words[0], answer(words))
	}
}
