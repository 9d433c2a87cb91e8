// Package sessions is the session load tool, klatch bench sessions. It drives the test application through a
// balancer with the options of the classic tool for clustered sessions.
//
// Each parent thread makes a session (CREATE), lets its children work on it at the same time, and ends it
// (DELETE). A child reads it (REFRESH) or changes one attribute (UPDATE). Children share the session's cookie
// and keep the one with the highest version, as a browser with several tabs would.
//
// Everything that is not as it should be is an error and is counted by kind. STALE is an answer below the
// version that the request carried: a session that went back in time.
package sessions
