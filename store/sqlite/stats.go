package sqlite

import "sync/atomic"

// Stats count what a Store has done since it was opened.
type Stats struct {
	Gets         uint64 // reads by key, found or not
	Puts         uint64 // puts that were committed
	Deletes      uint64 // deletes that were committed
	Refused      uint64 // writes that their CAS decided against
	Withdrawn    uint64 // writes whose context ended while they were queued
	Transactions uint64 // commits that changed something; each waits for the disk once
	Failed       uint64 // transactions that could not begin or commit
	Swept        uint64 // expired records that were deleted
	Sweeps       uint64 // walks of the sweeper through the whole table
	BusyWaits    uint64 // naps taken because another process held the file
	Queued       int    // writes waiting now
}

type counters struct {
	gets, puts, deletes, refused, withdrawn, transactions, failed, swept, sweeps, busyWaits atomic.Uint64
}

// Stats returns the counters as they are now.
func (s *Store) Stats() Stats {
	c := &s.counters
	return Stats{
		Gets: c.gets.Load(), Puts: c.puts.Load(), Deletes: c.deletes.Load(), Refused: c.refused.Load(),
		Withdrawn: c.withdrawn.Load(), Transactions: c.transactions.Load(), Failed: c.failed.Load(),
		Swept: c.swept.Load(), Sweeps: c.sweeps.Load(), BusyWaits: c.busyWaits.Load(), Queued: len(s.queue),
	}
}
