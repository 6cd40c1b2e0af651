// Prometheus's own parser and engine, for tests: are these rules and queries valid, and which alerts fire over these series?
// Reads a task as JSON from standard input, writes the answer as JSON. promtool itself links every cloud's SDK.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"math"
	"os"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
)

type task struct {
	Rules   string   `json:"rules"`   // a file of rule groups
	Queries []string `json:"queries"` // to be parsed
	Series  string   `json:"series"`  // `load 1m` and series, as promql's own tests write them
	Minutes []int    `json:"minutes"` // when to look which alerts fire, and what queries answer
}

type alert struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels"`
}

type point struct {
	Labels map[string]string `json:"labels"`
	Value  float64           `json:"value"`
}

type answer struct {
	Errors  []string            `json:"errors"`
	Metrics map[string][]string `json:"metrics"` // query or alert -> metrics that it asks for
	Firing  map[int][]alert     `json:"firing"`

	Answers map[string]map[int][]point `json:"answers"` // query -> minute -> what it finds, but for what is not a number
}

func main() {
	var work task
	if err := json.NewDecoder(os.Stdin).Decode(&work); err != nil {
		log.Fatal(err)
	}
	out := answer{Errors: []string{}, Metrics: map[string][]string{}, Firing: map[int][]alert{}, Answers: map[string]map[int][]point{}}
	read := parser.NewParser(parser.Options{})
	groups, errs := rulefmt.Parse([]byte(work.Rules), false, model.UTF8Validation, read, nil)
	for _, err := range errs {
		out.Errors = append(out.Errors, err.Error())
	}
	for _, query := range work.Queries {
		out.ask(read, query, query)
	}
	if groups != nil && len(errs) == 0 {
		for _, group := range groups.Groups {
			for _, rule := range group.Rules {
				out.ask(read, rule.Alert, rule.Expr)
			}
		}
		if len(work.Minutes) > 0 && len(out.Errors) == 0 {
			out.look(groups, work)
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		log.Fatal(err)
	}
}

func (out *answer) ask(read parser.Parser, name, query string) {
	expr, err := read.ParseExpr(query)
	if err != nil {
		out.Errors = append(out.Errors, fmt.Sprintf("%s: %v", query, err))
		return
	}
	out.Metrics[name] = []string{}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			out.Metrics[name] = append(out.Metrics[name], selector.Name)
		}
		return nil
	})
}

func (out *answer) look(groups *rulefmt.RuleGroups, work task) {
	series, err := promqltest.NewLazyLoader(work.Series, promqltest.LazyLoaderOpts{EnableAtModifier: true, EnableNegativeOffset: true})
	if err != nil {
		log.Fatal(err)
	}
	defer series.Close()
	series.WithSamplesTill(moment(slices.Max(work.Minutes)), func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	})
	for _, query := range work.Queries {
		out.Answers[query] = map[int][]point{}
	}
	for _, minute := range work.Minutes {
		out.Firing[minute] = firing(series, groups, minute)
		for _, query := range work.Queries {
			out.Answers[query][minute] = numbers(instant(series, query, minute))
		}
	}
}

// A rule fires for a series that its expression has had at each minute of its `for`.
func firing(series *promqltest.LazyLoader, groups *rulefmt.RuleGroups, minute int) []alert {
	alerts := []alert{}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			begin := minute - int(time.Duration(rule.For)/time.Minute)
			if begin < 0 {
				continue
			}
			var lasting map[string]promql.Sample
			for at := begin; at <= minute; at++ {
				lasting = still(lasting, instant(series, rule.Expr, at))
			}
			for _, found := range lasting {
				alerts = append(alerts, alert{rule.Alert, found.Metric.Map()})
			}
		}
	}
	return alerts
}

func numbers(found map[string]promql.Sample) []point {
	points := []point{}
	for _, sample := range found {
		if !math.IsNaN(sample.F) && !math.IsInf(sample.F, 0) {
			points = append(points, point{sample.Metric.Map(), sample.F})
		}
	}
	return points
}

func still(before, now map[string]promql.Sample) map[string]promql.Sample {
	if before == nil {
		return now
	}
	both := map[string]promql.Sample{}
	for name, found := range now {
		if _, ok := before[name]; ok {
			both[name] = found
		}
	}
	return both
}

func moment(minute int) time.Time {
	return time.Unix(int64(minute)*60, 0).UTC()
}

func instant(series *promqltest.LazyLoader, expr string, minute int) map[string]promql.Sample {
	query, err := series.QueryEngine().NewInstantQuery(series.Context(), series.Queryable(), nil, expr, moment(minute))
	if err != nil {
		log.Fatal(err)
	}
	defer query.Close()
	found := map[string]promql.Sample{}
	result := query.Exec(series.Context())
	if result.Err != nil {
		log.Fatalf("%s: %v", expr, result.Err)
	}
	vector, err := result.Vector()
	if err != nil {
		log.Fatalf("%s: %v", expr, err)
	}
	for _, sample := range vector {
		found[sample.Metric.String()] = sample
	}
	return found
}
