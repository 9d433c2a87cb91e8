package history_test

import (
	"fmt"
	"os"
	"time"

	"klatch/internal/history"
)

func ExampleCheck() {
	recorder := history.NewRecorder(time.Now)

	created := recorder.Begin(history.Operation{Client: "c1", Node: "n1", Key: "k", Kind: history.Create, Value: "x"})
	created.End(history.Answer{Outcome: history.OK, Version: 1})
	deleted := recorder.Begin(history.Operation{Client: "c1", Node: "n1", Key: "k", Kind: history.Delete})
	deleted.End(history.Answer{Outcome: history.OK})
	read := recorder.Begin(history.Operation{Client: "c2", Node: "n2", Key: "k", Kind: history.Read, Level: history.Session})
	read.End(history.Answer{Outcome: history.Absent})

	fmt.Println(history.Check(recorder.History(), history.Linearizable{}, history.NoResurrection{}))
	// Output: <nil>
}

func ExampleCheckerFunc() {
	noFailures := history.CheckerFunc(func(h history.History) (found []history.Violation) {
		for _, o := range h {
			if o.Outcome == history.Failed {
				found = append(found, history.Violation{Promise: "no failures", Text: "it failed", Operations: []history.Operation{o}})
			}
		}
		return found
	})
	h := history.History{{ID: 7, Client: "c", Node: "n", Key: "k", Kind: history.Delete, Start: 1, End: 2, Outcome: history.Failed, Note: "no store"}}
	fmt.Println(history.Check(h, noFailures))
	// Output:
	// a promise was broken:
	// no failures: it failed
	// 	#7 c at n: delete k -> failed (no store) [1ns to 2ns]
}

func ExampleHistory_Dump() {
	h := history.History{{ID: 0, Client: "c1", Node: "n1", Key: "k", Kind: history.Create, Value: "x", Start: 10, End: 20, Version: 1, Outcome: history.OK}}
	h.Dump(os.Stdout)
	// Output:
	// {"id":0,"client":"c1","node":"n1","key":"k","kind":"create","start":10,"end":20,"value":"x","version":1,"outcome":"ok"}
}
