package cluster

import (
	"strconv"
	"strings"

	"klatch/proto"
)

// bootName is the name under which memberlist knows one boot of a node. A name of its own for each boot lets a
// restarted node in at once, at whatever address, while the others still believe its predecessor alive: to
// memberlist the two are different nodes.
func bootName(o proto.Origin) string { return o.Node + "." + strconv.FormatUint(o.Boot, 36) }

// parseBootName reports false for a name that no klatch node has.
func parseBootName(name string) (proto.Origin, bool) {
	node, digits, ok := strings.Cut(name, ".")
	boot, err := strconv.ParseUint(digits, 36, 64)
	if !ok || err != nil || boot == 0 || !nodeName.MatchString(node) {
		return proto.Origin{}, false
	}
	return proto.Origin{Node: node, Boot: boot}, true
}
