// Prints "statement <tab> fingerprint <tab> id" for each line of standard input, as
// examples/fingerprint_lines.rs does, with Percona's implementation: the other half of a
// differential test. Needs "go get github.com/percona/go-mysql/query" here first.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"github.com/percona/go-mysql/query"
)

var escapes = strings.NewReplacer("\\", `\\`, "\t", `\t`, "\n", `\n`, "\r", `\r`)

func unescape(line string) string {
	var text strings.Builder
	for i := 0; i < len(line); i++ {
		if line[i] != '\\' || i+1 == len(line) {
			text.WriteByte(line[i])
			continue
		}
		i++
		switch line[i] {
		case 't':
			text.WriteByte('\t')
		case 'n':
			text.WriteByte('\n')
		case 'r':
			text.WriteByte('\r')
		default:
			text.WriteByte(line[i])
		}
	}
	return text.String()
}

// fingerprint gives "(panic)" where the reference runs over the end of its buffer.
func fingerprint(statement string) (text string) {
	defer func() {
		if recover() != nil {
			text = "(panic)"
		}
	}()
	return query.Fingerprint(statement)
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		text := fingerprint(unescape(lines.Text()))
		fmt.Printf("%s\t%s\t%s\n", lines.Text(), escapes.Replace(text), query.Id(text))
	}
}
