//go:build nogossip

package node

// gossip is off in a build that shows what gossip costs, and serves copies that may be old for ever. No release is
// built with this tag.
const gossip = false
