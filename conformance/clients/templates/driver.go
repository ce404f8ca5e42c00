// A driver for a client library in Go: replace LIBRARY.
package main

import (
	"LIBRARY"
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

func number(w string) uint64 { n, _ := strconv.ParseUint(w, 10, 64); return n }
func seconds(w string) time.Duration { return time.Duration(number(w)) * time.Second }
func body(w string) []byte { b, _ := hex.DecodeString(w[1:]); return b }

func main() {
	var c *beanstalk.Conn
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		w := strings.Fields(line)
		answer := "ok"
		switch w[1] {
		case "connect":
			c, err = beanstalk.Dial("tcp", w[2]+":"+w[3])
		case "put":
			var id uint64
			id, err = c.Put(body(w[5]), uint32(number(w[2])), seconds(w[3]), seconds(w[4]))
			answer = fmt.Sprint("ok ", id)
		case "delete":
			err = c.Delete(number(w[2]))
		default:
			answer = "unsupported"
		}
		if err != nil {
			answer = "error " + strings.ReplaceAll(err.Error(), "\n", " ")
		}
		fmt.Println("@beanstalk", w[0], answer)
	}
}
