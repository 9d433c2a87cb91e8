package cluster

import (
	"net"
	"strings"
)

// Why a stranger's traffic was refused.
const (
	StrangerLabel      = "label"      // it is of another cluster
	StrangerKey        = "key"        // it is encrypted by a key that is not installed here, or one side does not encrypt
	StrangerName       = "name"       // it announces what is no node of klatch
	StrangerRelease    = "release"    // it shares no protocol version with this node
	StrangerUnreadable = "unreadable" // it is no message of a member; damaged, or sent by another program
)

// strangerMarks tell the lines of memberlist's log that speak of traffic from strangers. It shows them in no other way.
var strangerMarks = []struct{ reason, mark string }{
	{StrangerLabel, "with unacceptable label"},
	{StrangerKey, "Decrypt packet failed"},
	{StrangerKey, "no installed keys could decrypt"},
	{StrangerKey, "is encrypted and encryption is not configured"},
	{StrangerKey, "encryption is configured but"},
	{StrangerName, errStranger.Error()},
	{StrangerRelease, "is incompatible"},
	{StrangerUnreadable, "label header"},
	{StrangerUnreadable, "Failed to decode"},
	{StrangerUnreadable, "not supported"},
	{StrangerUnreadable, "invalid msgType"},
	{StrangerUnreadable, "missing message type"},
	{StrangerUnreadable, "packet too short"},
}

// strangerAdvice says what to look at.
var strangerAdvice = map[string]string{
	StrangerLabel:      "it belongs to another cluster; if it should be a member of this one, give both the same --cluster",
	StrangerKey:        "if it should be a member, compare the key files of both; klatch keyring list shows the keys in use here",
	StrangerName:       "something that is no klatch node speaks memberlist to this one",
	StrangerRelease:    "its release is too far from that of this node; upgrade in smaller steps",
	StrangerUnreadable: "if it should be a member, compare the key files of both: one may encrypt and the other not",
}

// strangerOf returns why a line of memberlist's log was written and about whom, or false if it is not about a stranger.
func strangerOf(text string) (reason, host string, ok bool) {
	for _, m := range strangerMarks {
		if strings.Contains(text, m.mark) {
			_, from, _ := strings.Cut(text, "from=")
			if host, _, err := net.SplitHostPort(from); err == nil {
				return m.reason, host, true // it may use many ports
			}
			return m.reason, from, true
		}
	}
	return "", "", false
}
