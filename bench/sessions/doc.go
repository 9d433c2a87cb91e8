// Package sessions is the session load tool, klatch bench sessions. It drives the test application through a
// balancer with the options of the classic tool for clustered sessions.
//
// Each parent thread makes a session (CREATE), lets its children work on it at the same time, and ends it
// (DELETE). A child reads it (REFRESH) or changes one attribute (UPDATE). Children share the session's cookie
// and keep the one with the highest version, as a browser with several tabs would.
//
// Everything that is not as it should be is an error and is counted by kind:
//
//	STALE        the answer is below the version that the request carried: a session that went back in time
//	STATUS nnn   the answer is no success; redirects are not followed, so load goes only where -b says
//	TRANSPORT    there was no answer, or the connection broke; the tool repeats nothing
//	BODY         the answer is not the application's JSON
//	ATTRIBUTES   the session has another number of attributes than it was made with
//	COOKIE       a session was made without a cookie
//
// Times are those of operations that went well; operations per second counts all of them, failed ones too, over
// the whole run. Quantiles come from a histogram with three digits, mean, deviation and maximum are exact.
//
// With -o json the report is one object (times in ms):
//
//	{
//	  "errors": 0, "errorKinds": {"STALE": 0, …}, "errorSamples": ["UPDATE STALE: …"],
//	  "operations": {"CREATE": {"count", "mean_ms", "dev_ms", "p50_ms", "p99_ms", "max_ms"}, "REFRESH": …},
//	  "seconds": 1.5, "operationsPerSecond": 2000, "interrupted": true
//	}
//
// errorKinds has the kinds that occurred, errorSamples the first few errors, operations those that ran; what is
// empty or false may be left out.
package sessions
