package couchbase

import "github.com/couchbase/gocb/v2"

// Durability says which writes wait until replicas have them. What did not wait can be undone by a
// fail-over.
type Durability string

const (
	// Auto has the writes that ask for it (store.PutOptions.Durable, and every delete) wait until a
	// majority has them in memory; on a cluster too old for that they do not wait.
	Auto Durability = "auto"
	// None has no write wait: for a single node, or where losing the last writes is acceptable.
	None Durability = "none"
	// Majority has every write wait until a majority has it in memory.
	Majority Durability = "majority"
	// MajorityAndPersistToActive has every write wait for that, and for the active node's disk.
	MajorityAndPersistToActive Durability = "majorityAndPersistToActive"
	// PersistToMajority has every write wait until a majority has it on disk.
	PersistToMajority Durability = "persistToMajority"
)

const durabilities = "auto, none, majority, majorityAndPersistToActive or persistToMajority"

// noLevel marks a name that is none of the above.
const noLevel = -1

// level returns gocb's level of writes that do not ask for durability.
func (d Durability) level() int {
	switch d {
	case Auto, None:
		return int(gocb.DurabilityLevelNone)
	case Majority:
		return int(gocb.DurabilityLevelMajority)
	case MajorityAndPersistToActive:
		return int(gocb.DurabilityLevelMajorityAndPersistOnMaster)
	case PersistToMajority:
		return int(gocb.DurabilityLevelPersistToMajority)
	default:
		return noLevel
	}
}

// forWrite returns gocb's level of a write.
func (d Durability) forWrite(durable bool) gocb.DurabilityLevel {
	if d == Auto && durable {
		return gocb.DurabilityLevelMajority
	}
	return gocb.DurabilityLevel(d.level())
}
