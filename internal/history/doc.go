// Package history records what clients of a cluster asked and were answered, and checks whether a cluster that
// keeps its promises can have answered so.
//
// A [Recorder] takes the operations, from any number of goroutines, of nodes in the same process or in others.
// What it has recorded is a [History], which can be dumped as JSON lines and loaded again.
//
//	pending := recorder.Begin(history.Operation{Client: "c1", Node: "n2", Key: id, Kind: history.Read, Level: history.Latest})
//	... ask
//	pending.End(history.Answer{Outcome: history.OK, Version: version, Value: value})
//
// # Checkers
//
// Each promise is a [Checker]: [Linearizable], [ReadYourWrites], [MonotonicReads], [TokenHonoured],
// [NoResurrection], [NothingLost] and [BoundedStaleness]. [Check] runs several over one history:
//
//	err := history.Check(recorder.History(), history.Linearizable{}, history.NoResurrection{})
//
// # What the checkers rely on
//
//   - Versions of one key strictly grow, and each names one write (they are the "changed" of a record).
//   - A written Value is unique within its key. Otherwise a write whose outcome is unknown cannot be
//     recognised by who read it.
//   - A key is created once and, once deleted, is never used again, as session ids are not.
//   - All that is written to a key is recorded, its creation included, and nothing expires meanwhile.
//
// # Another promise
//
// A checker is a struct with its settings as fields and one method, in a file of its own. It goes through
// [History.ByKey] or [History.ByClient] and returns each [Violation] with the operations that show it. If it
// needs to know more of an operation, add a field to [Operation]; what old dumps do not have is zero.
package history
