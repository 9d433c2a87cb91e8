package cbnode

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/couchbase/gocbcore/v10/memd"
)

// features are what the node agrees to in HELLO. Compression is not among them, so values are stored as
// they come.
var features = []memd.HelloFeature{
	memd.FeatureTCPNoDelay, memd.FeatureSeqNo, memd.FeatureXattr, memd.FeatureXerror, memd.FeatureSelectBucket,
	memd.FeatureUnorderedExec, memd.FeatureAltRequests, memd.FeatureSyncReplication, memd.FeatureCollections,
	memd.FeaturePreserveExpiry,
}

// reply is an answer on its way.
type reply struct {
	status memd.StatusCode
	cas    uint64
	extras []byte
	value  []byte
}

func status(code memd.StatusCode) reply { return reply{status: code} }

// bootstrap handles the commands by which a client sets up its connection. It reports false for all others.
func (c *connection) bootstrap(p *memd.Packet) (reply, bool) {
	switch p.Command {
	case memd.CmdHello:
		return c.hello(p), true
	case memd.CmdGetErrorMap:
		return reply{value: errorMap()}, true
	case memd.CmdSASLListMechs:
		return reply{value: []byte("SCRAM-SHA512 SCRAM-SHA256 SCRAM-SHA1 PLAIN")}, true
	case memd.CmdSASLAuth:
		return c.saslAuth(p), true
	case memd.CmdSASLStep:
		return c.saslStep(p), true
	case memd.CmdSelectBucket:
		return c.selectBucket(p), true
	case memd.CmdGetClusterConfig:
		if !c.authenticated {
			return status(memd.StatusAccessError), true
		}
		return reply{value: c.node.config(c.selected)}, true
	case memd.CmdNoop:
		return status(memd.StatusSuccess), true
	}
	return reply{}, false
}

// hello turns on the features that the client asks for and the node has.
func (c *connection) hello(p *memd.Packet) reply {
	var agreed []byte
	for asked := range slices.Chunk(p.Value, 2) {
		if len(asked) != 2 {
			return status(memd.StatusInvalidArgs)
		}
		feature := memd.HelloFeature(binary.BigEndian.Uint16(asked))
		if !slices.Contains(features, feature) {
			continue
		}
		c.requests.EnableFeature(feature)
		agreed = append(agreed, asked...)
	}
	return reply{value: agreed}
}

// passwordOf gives strangers a password that nobody can know.
func (n *Node) passwordOf(user string) string {
	if user == n.options.User {
		return n.options.Password
	}
	return rand.Text()
}

func (c *connection) saslAuth(p *memd.Packet) reply {
	c.authenticated, c.selected, c.scram = false, false, nil
	if string(p.Key) == "PLAIN" {
		parts := bytes.Split(p.Value, []byte{0})
		if len(parts) != 3 || string(parts[2]) != c.node.passwordOf(string(parts[1])) {
			return status(memd.StatusAuthError)
		}
		c.authenticated = true
		return status(memd.StatusSuccess)
	}
	newHash, known := scramHashes[string(p.Key)]
	if !known {
		return status(memd.StatusAuthError)
	}
	conversation, err := startScram(newHash, p.Value, c.node.passwordOf)
	if err != nil {
		return status(memd.StatusInvalidArgs)
	}
	c.scram = conversation
	return reply{status: memd.StatusAuthContinue, value: []byte(conversation.serverFirst)}
}

func (c *connection) saslStep(p *memd.Packet) reply {
	conversation := c.scram
	c.scram = nil
	if conversation == nil {
		return status(memd.StatusInvalidArgs)
	}
	proof, err := conversation.finish(p.Value)
	if err != nil {
		return status(memd.StatusAuthError)
	}
	c.authenticated = true
	return reply{value: proof}
}

// selectBucket answers like the server, which does not tell a user a missing bucket from a forbidden one.
func (c *connection) selectBucket(p *memd.Packet) reply {
	if !c.authenticated || string(p.Key) != c.node.options.Bucket {
		return status(memd.StatusAccessError)
	}
	c.selected = true
	return status(memd.StatusSuccess)
}

// vbuckets is the number of parts that the bucket is hashed into. The server has 1024; with one node the
// only difference is the length of the configuration.
const vbuckets = 64

// config returns the cluster's configuration, with or without its bucket.
func (n *Node) config(withBucket bool) []byte {
	config := map[string]any{
		// There is never another configuration.
		"rev": 1, "revEpoch": 1,
		"clusterCapabilitiesVer": []int{1, 0}, "clusterCapabilities": map[string]any{},
		"nodesExt": []any{map[string]any{
			"hostname": loopback, "thisNode": true,
			"services": map[string]any{"kv": n.options.KVPort, "mgmt": n.options.MgmtPort},
		}},
	}
	if withBucket {
		bucket := n.options.Bucket
		partitions := make([][]int, vbuckets)
		for i := range partitions {
			partitions[i] = []int{0}
		}
		config["name"], config["uuid"] = bucket, n.bucketUUID
		config["uri"] = fmt.Sprintf("/pools/default/buckets/%s?bucket_uuid=%s", bucket, n.bucketUUID)
		config["nodeLocator"] = "vbucket"
		config["bucketCapabilitiesVer"] = ""
		config["bucketCapabilities"] = []string{"collections", "durableWrite", "cccp", "cbhello", "touch", "nodesExt", "xattr"}
		config["nodes"] = []any{map[string]any{
			"hostname": fmt.Sprintf("%s:%d", loopback, n.options.MgmtPort), "ports": map[string]any{"direct": n.options.KVPort},
		}}
		config["vBucketServerMap"] = map[string]any{
			"hashAlgorithm": "CRC", "numReplicas": 0, "vBucketMap": partitions,
			"serverList": []string{fmt.Sprintf("%s:%d", loopback, n.options.KVPort)},
		}
	}
	return mustJSON(config)
}

// errorMap describes the statuses to the client, which takes from it which ones it may retry.
func errorMap() []byte {
	errors := map[string]any{}
	for code, attributes := range map[memd.StatusCode]string{
		memd.StatusSuccess: "success", memd.StatusKeyNotFound: "item-only", memd.StatusKeyExists: "item-only",
		memd.StatusTooBig: "item-only invalid-input", memd.StatusInvalidArgs: "internal invalid-input",
		memd.StatusLocked: "item-locked item-only retry-now", memd.StatusNotLocked: "item-only",
		memd.StatusNoBucket: "conn-state-invalidated", memd.StatusAuthError: "conn-state-invalidated auth",
		memd.StatusAccessError: "support", memd.StatusTmpFail: "temp retry-later",
		memd.StatusBusy: "temp retry-later", memd.StatusOutOfMemory: "temp retry-later",
		memd.StatusUnknownCommand: "support", memd.StatusNotSupported: "support",
		memd.StatusCollectionUnknown: "item-only", memd.StatusScopeUnknown: "item-only",
		memd.StatusDurabilityInvalidLevel: "item-only invalid-input", memd.StatusDurabilityImpossible: "item-only",
		memd.StatusSyncWriteInProgress: "item-only retry-later", memd.StatusSyncWriteAmbiguous: "item-only",
	} {
		errors[fmt.Sprintf("%x", uint16(code))] = map[string]any{
			"name": strings.ToUpper(strings.ReplaceAll(code.String(), " ", "_")), "desc": code.String(), "attrs": strings.Fields(attributes),
		}
	}
	return mustJSON(map[string]any{"version": 1, "revision": 2, "errors": errors})
}

// mustJSON encodes what this package has put together itself.
func mustJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}
