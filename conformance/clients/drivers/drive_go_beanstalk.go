// A driver for go-beanstalk, which sends use, watch and ignore only when another command needs them.
package main
import ("bufio"; "encoding/hex"; "fmt"; "os"; "strconv"; "strings"; "time"
	"github.com/beanstalkd/go-beanstalk")
var (client *beanstalk.Conn; words []string)
func text(n int) []byte { found, _ := hex.DecodeString(words[n][1:]); return found }
func tube() *beanstalk.Tube { return beanstalk.NewTube(client, string(text(2))) }
func seconds(n int) time.Duration { found, _ := time.ParseDuration(words[n] + "s"); return found }
func number(n int, bits int) uint64 {
	found, err := strconv.ParseUint(words[n], 10, bits)
	if err != nil { panic(err) }; return found
}
func id() uint64 { return number(2, 64) }
func u32(n int) uint32 { return uint32(number(n, 32)) }
func none(err error) string { if err != nil { return "error " + err.Error() }; return "ok" }
func job(id uint64, body []byte, err error) string { return none(err) + fmt.Sprintf(" %d x%x", id, body) }
func count[T int | uint64](found T, err error) string { return none(err) + fmt.Sprint(" ", found) }
func found(body []byte, err error) string { return job(id(), body, err) }
func names(list []string, err error) (answer string) {
	for _, name := range list { answer += fmt.Sprintf(" x%x", name) }
	return none(err) + answer
}
func pairs(stats map[string]string, err error) (answer string) {
	for key, value := range stats { answer += fmt.Sprintf(" x%x x%x", key, value) }
	return none(err) + answer
}
var operations = map[string]func() string{
	"connect": func() string { made, err := beanstalk.Dial("tcp", words[2]+":"+words[3]); client = made; return none(err) },
	"put": func() string { return count(client.Tube.Put(text(5), u32(2), seconds(3), seconds(4))) },
	"use": func() string { client.Tube = *tube(); return "ok" },
	"reserve-with-timeout": func() string { return job(client.TubeSet.Reserve(seconds(2))) },
	"reserve-job": func() string { return found(client.ReserveJob(id())) },
	"delete": func() string { return none(client.Delete(id())) },
	"release": func() string { return none(client.Release(id(), u32(3), seconds(4))) },
	"bury": func() string { return none(client.Bury(id(), u32(3))) },
	"touch": func() string { return none(client.Touch(id())) },
	"watch": func() string { client.TubeSet.Name[tube().Name] = true; return "ok" },
	"ignore": func() string { delete(client.TubeSet.Name, tube().Name); return "ok" },
	"peek": func() string { return found(client.Peek(id())) },
	"peek-ready": func() string { return job(client.PeekReady()) },
	"peek-delayed": func() string { return job(client.PeekDelayed()) },
	"peek-buried": func() string { return job(client.PeekBuried()) },
	"kick": func() string { return count(client.Kick(int(number(2, 31)))) },
	"kick-job": func() string { return none(client.KickJob(id())) },
	"stats-job": func() string { return pairs(client.StatsJob(id())) },
	"stats-tube": func() string { return pairs(tube().Stats()) },
	"stats": func() string { return pairs(client.Stats()) },
	"list-tubes": func() string { return names(client.ListTubes()) },
	"pause-tube": func() string { return none(tube().Pause(seconds(3))) },
}
func answer() (said string) {
	defer func() { switch problem := recover().(type) { case nil: ; case *strconv.NumError: said = "unsupported"; default: panic(problem) } }()
	if run, has := operations[words[1]]; has { return run() }; return "unsupported"
}
func main() {
	lines := bufio.NewScanner(os.Stdin); lines.Buffer(nil, 1<<20)
	for ; lines.Scan(); fmt.Println("@beanstalk", words[0], answer()) {
		words = strings.Fields(lines.Text())
	}
}
