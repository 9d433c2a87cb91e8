// Package stamps kills what was fetched before a moment, on every node and in every tier, without looking for it.
//
// A tenant has an epoch, a counter in the store. A cache notes with each object the epoch that its node knew when the
// fetch of the object began. To purge a scope, such as a tag, is to raise the epoch by compare-and-swap and to stamp
// the scope with the new one: whatever bears the scope and has a lower epoch is dead from then on. No clock takes part,
// a fetch that was under way is covered, and the cost does not depend on how many objects bear the scope.
//
//	epoch, err := register.Current(ctx, tenant) // before the fetch, and before each use of an object
//	...
//	if register.Alive(tenant, object.Epoch, object.Scopes...) { answer from memory }
//
// A node learns of stamps by news, and reads the record again whenever it may have missed some: behind a fence, while
// the bus is not trusted, and when what it knows has grown old. Epochs and stamps only rise, so whatever comes late or
// twice is merged by the maximum. A node that knows an epoch has begun all its later fetches after every stamp up to
// that epoch was in the store, whether or not it has heard of each: the maximum is enough.
package stamps
