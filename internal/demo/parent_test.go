package demo

import (
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func environment(value string) func(string) string {
	return func(name string) string {
		if name == parentEnv {
			return value
		}
		return ""
	}
}

func TestAChildHearsThatItsParentHasEnded(t *testing.T) {
	lifeline, pulse, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	// The watcher owns its descriptor and closes it, so it gets one of its own.
	fd, err := dup(lifeline)
	if err != nil {
		t.Fatal(err)
	}
	lifeline.Close()
	gone := make(chan struct{})
	if err := WatchParent(environment(strconv.Itoa(fd)), func() { close(gone) }); err != nil {
		t.Fatal(err)
	}
	select {
	case <-gone:
		t.Fatal("heard while the parent lives")
	default:
	}
	pulse.Close()
	select {
	case <-gone:
	case <-time.After(patience):
		t.Fatal("not heard")
	}
}

func TestAProcessWithoutAParentWatchesNothing(t *testing.T) {
	if err := WatchParent(environment(""), func() { t.Error("called") }); err != nil {
		t.Error(err)
	}
}

func TestAnythingButAPipeIsRefused(t *testing.T) {
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, value := range []string{"x", "-1", "60000", "70000", strconv.Itoa(int(file.Fd()))} {
		err := WatchParent(environment(value), func() { t.Error("called") })
		if err == nil || !strings.Contains(err.Error(), "unset it") {
			t.Errorf("%s: it says %v", value, err)
		}
	}
}

// Nothing can be done by a parent that is killed: the children end all the same.
func TestTheNodesEndWithADemoThatWasKilled(t *testing.T) {
	opts := Options{Nodes: 3, BasePort: freeBase(t), Dir: t.TempDir(), JSON: true}
	setting, err := json.Marshal(opts)
	if err != nil {
		t.Fatal(err)
	}
	middle := exec.Command(os.Args[0])
	middle.Env = append(os.Environ(), demoEnv+"="+string(setting))
	middle.Stderr = os.Stderr
	out, err := middle.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := middle.Start(); err != nil {
		t.Fatal(err)
	}
	line := firstLine(t, out)
	if !strings.Contains(line, `"n3"`) {
		t.Errorf("it says %s", line)
	}
	if err := middle.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = middle.Wait() // killed
	expectFree(t, opts.BasePort)
}

func dup(file *os.File) (int, error) { return syscall.Dup(int(file.Fd())) }
