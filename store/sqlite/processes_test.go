package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"klatch/store"
	"klatch/store/sqlite"
)

// These tests start the test binary again as other processes, which find their role in the environment.
const (
	childRole = "KLATCH_SQLITE_TEST_ROLE"
	childPath = "KLATCH_SQLITE_TEST_PATH"

	processes  = 4
	increments = 100
)

func child(t *testing.T, role, path string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childRole+"="+role, childPath+"="+path)
	cmd.Stderr = os.Stderr
	return cmd
}

func runChild(role string) int {
	s, err := sqlite.Open(context.Background(), sqlite.Options{Path: os.Getenv(childPath), BusyTimeout: 30 * time.Second})
	if err == nil {
		switch role {
		case "count":
			err = errors.Join(count(s), s.Close())
		case "write":
			err = writeForEver(s, os.Stdout)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		return 1
	}
	return 0
}

// count raises the counter from two goroutines.
func count(s *sqlite.Store) error {
	errs := make([]error, 2)
	var running sync.WaitGroup
	for i := range errs {
		running.Go(func() {
			for range increments / len(errs) {
				if errs[i] = increment(s); errs[i] != nil {
					return
				}
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// increment raises the counter by one, and reads back that no older value shows after its own write.
func increment(s *sqlite.Store) error {
	ctx := context.Background()
	for {
		rec, err := s.Get(ctx, key("counter"))
		n := 0
		condition := store.Absent
		switch {
		case err == nil:
			condition = rec.CAS
			if n, err = strconv.Atoi(string(rec.Value)); err != nil {
				return err
			}
		case !errors.Is(err, store.ErrNotFound):
			return err
		}
		_, err = s.Put(ctx, key("counter"), []byte(strconv.Itoa(n+1)), store.PutOptions{CAS: condition, TTL: store.Forever})
		if errors.Is(err, store.ErrConflict) {
			continue
		}
		if err != nil {
			return err
		}
		rec, err = s.Get(ctx, key("counter"))
		if err != nil {
			return err
		}
		if now, _ := strconv.Atoi(string(rec.Value)); now <= n {
			return fmt.Errorf("the counter was %d and then %s", n, rec.Value)
		}
		return nil
	}
}

// writeForEver has eight goroutines write records and print the id of each that was acknowledged.
func writeForEver(s *sqlite.Store, acknowledged io.Writer) error {
	failed := make(chan error, 8)
	var mu sync.Mutex // guards acknowledged
	for w := range cap(failed) {
		go func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("%d-%d-%d", os.Getpid(), w, i)
				_, err := s.Put(context.Background(), key(id), []byte(strings.Repeat(id, 50)), store.PutOptions{CAS: store.Absent, TTL: time.Hour})
				if err == nil {
					mu.Lock()
					_, err = fmt.Fprintln(acknowledged, id)
					mu.Unlock()
				}
				if err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	return <-failed
}

func TestProcessesShareOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "klatch.db")
	var children []*exec.Cmd
	for range processes {
		cmd := child(t, "count", path)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		children = append(children, cmd)
	}
	for _, cmd := range children {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	s := open(t, sqlite.Options{Path: path})
	rec, err := s.Get(context.Background(), key("counter"))
	if want := strconv.Itoa(processes * increments); err != nil || string(rec.Value) != want {
		t.Errorf("the counter is %s, want %s: %v", rec.Value, want, err)
	}
}

func TestAcknowledgedWritesSurviveAKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "klatch.db")
	acknowledged := map[string]bool{}
	for range 3 {
		cmd := child(t, "write", path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(out)
		for n := 0; ; n++ {
			line, err := lines.ReadString('\n')
			if err != nil {
				break // the last line may be cut off: it does not count
			}
			acknowledged[strings.TrimSuffix(line, "\n")] = true
			if n == 500 {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := cmd.Wait(); err == nil {
			t.Fatal("the child ended by itself")
		}

		s := open(t, sqlite.Options{Path: path})
		for id := range acknowledged {
			rec, err := s.Get(context.Background(), key(id))
			if err != nil || string(rec.Value) != strings.Repeat(id, 50) {
				t.Fatalf("the acknowledged record %s is lost: %v", id, err)
			}
		}
		t.Logf("%d acknowledged writes are there", len(acknowledged))
		closeStore(t, s)
	}
}
