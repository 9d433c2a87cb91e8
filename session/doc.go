// Package session keeps HTTP sessions for a cluster of nodes that share one store.
//
// A [Manager] loads, changes and ends sessions; [Manager.Middleware] does so around an http.Handler. The
// rule that everything follows is that the store decides: every save is "put if still this revision", so no
// update is lost between nodes and a late save never brings a deleted session back.
//
// # Deltas
//
// A [Session] is a private view. What a request sets or removes is remembered as changes, and a commit
// merges only these onto the newest revision. Two requests that set different attributes both win.
//
// # Limits
//
// The idle limit is never enforced early and at most a tenth late: reads record an access only when more
// than a tenth of the limit has passed since the last recorded one, which keeps a busy session from
// writing on every read. The absolute limit is exact.
package session
