// Judges requests to Azure Resource Manager, and its answers, by the Go modules that Microsoft generates
// from Azure's specifications. Reads one JSON document a line, and answers each with one.
//
//	control_plane requests                     sends each request to the module's fake server
//	control_plane answers URL TOKEN CA SUBSCRIPTION   sends it to URL with the module's client
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// sent is a request as it was recorded.
type sent struct {
	Method  string          `json:"method"`
	Path    string          `json:"path"`
	Query   string          `json:"query"`
	Version string          `json:"api_version"`
	Body    json.RawMessage `json:"body"`
}

// judgement is the module's word about a request, or about the answer to it.
type judgement struct {
	Module    string   `json:"module"`
	Operation string   `json:"operation"`
	Version   string   `json:"api_version"`
	Problem   string   `json:"problem"`
	Unknown   []string `json:"unknown"` // what the module does not know in the body or answer
}

func main() {
	judge := request
	if len(os.Args) == 6 && os.Args[1] == "answers" {
		judge = answers(os.Args[2], os.Args[3], os.Args[4], os.Args[5])
	} else if len(os.Args) != 2 || os.Args[1] != "requests" {
		fmt.Fprintln(os.Stderr, "usage: control_plane requests | answers URL TOKEN CA SUBSCRIPTION")
		os.Exit(2)
	}
	var all []operation
	for i := range modules {
		all = append(all, operations(&modules[i])...)
	}
	known := map[string]bool{}
	for _, one := range all {
		known[provider("/"+strings.Join(one.path, "/"))] = true
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var one sent
		if failed := json.Unmarshal(lines.Bytes(), &one); failed != nil {
			fmt.Fprintln(os.Stderr, failed)
			os.Exit(1)
		}
		said := judgement{Unknown: []string{}} // of a provider whose module is not here: not judged
		if known[provider(one.Path)] {
			said.Problem = "no module has an operation for it"
		}
		if found, values := find(all, one.Method, one.Path); found != nil {
			said = judgement{found.module.name, found.name, found.version, "", []string{}}
			judge(one, found, values, &said)
		}
		text, _ := json.Marshal(said)
		fmt.Println(string(text))
	}
}
