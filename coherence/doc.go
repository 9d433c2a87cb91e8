// Package coherence checks that copies in memory are not older than they may be.
//
// It reads some records from the store, waits, and looks at the copies that would be served then: one that is older than
// what the store had before the wait is stale by at least as long. It is a test of everything between a commit and a
// copy (news, repair, fences, trust) that needs no knowledge of any of these, and can run in production.
package coherence
