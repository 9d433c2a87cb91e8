// Package near keeps a node's bounded in-memory copies of store records.
//
// # Which copies may be used
//
// A copy counts its age from the start of the store operation that brought it. It is usable if it is not
// below the version that the reader has seen, its deadline has not passed, it is younger than the maximum
// age, and it did not begin before the fence. All of this is looked at when the copy is read, by the
// monotonic and the wall clock, so that a process that was frozen, or a machine that slept, knows. While the store
// cannot be reached, the maximum age alone is stretched, for a bounded time.
//
// # Which results may be kept
//
// Every store operation whose result may be kept opens a fill. News that arrives while a fill is open marks
// it; a result below its mark is not kept, and no later reader may join that fill, though it may answer
// those who already wait. Without this rule a read that was in flight during a write puts the old value
// back, which is the fault of nearly every cache.
package near
