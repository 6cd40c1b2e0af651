// Crdcheck gives the verdict of a kube-apiserver on custom resources, by the API server's own code and without a cluster.
//
//	crdcheck CRD.yaml < objects.jsonl > answers.jsonl
//
// First the definition itself is validated as the API server does when it is created: structural schema, compilation of
// the CEL rules, their estimated cost. The first line of the output tells. Then each line {"name", "object", "old"?} is
// decoded strictly (unknown fields are errors, as kubectl asks) and validated as a creation, or as an update if there is
// an old object, and answered by one line. It must judge nothing by itself.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
)

// Question is one line of the input.
type Question struct {
	Name   string          `json:"name"`
	Object json.RawMessage `json:"object"`
	Old    json.RawMessage `json:"old,omitempty"`
	// Cost asks what the rules cost, which takes a second evaluation.
	Cost bool `json:"cost,omitempty"`
}

// Answer is what the API server says to a question.
type Answer struct {
	Name   string   `json:"name"`
	Valid  bool     `json:"valid"`
	Errors []string `json:"errors"`
	// Cost is what evaluating the rules took out of the budget, in units of CEL, if asked for.
	Cost int64 `json:"cost"`
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: crdcheck CRD.yaml < objects.jsonl")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "crdcheck:", err)
		os.Exit(1)
	}
}

func run(path string) error {
	out := json.NewEncoder(os.Stdout)
	definition, err := readDefinition(path)
	if err != nil {
		return err
	}
	report, err := judgeDefinition(definition)
	if err != nil {
		return err
	}
	if err := out.Encode(report); err != nil || len(report.Errors) > 0 {
		return err
	}
	server, err := newServer(definition)
	if err != nil {
		return err
	}
	questions := make(chan Question)
	answers := make(chan Answer)
	var workers sync.WaitGroup
	for range runtime.NumCPU() {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for question := range questions {
				answers <- server.answer(question)
			}
		}()
	}
	failed := make(chan error, 1)
	go func() {
		failed <- ask(os.Stdin, questions)
		close(questions)
		workers.Wait()
		close(answers)
	}()
	for answer := range answers {
		if err := out.Encode(answer); err != nil {
			return err
		}
	}
	return <-failed
}

// ask reads the questions; their answers come in any order.
func ask(in io.Reader, questions chan<- Question) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var question Question
		if err := json.Unmarshal(lines.Bytes(), &question); err != nil {
			return err
		}
		questions <- question
	}
	return lines.Err()
}
