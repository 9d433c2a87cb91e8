package demo

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
)

// parentEnv tells a child which of its file descriptors only the parent holds open at the other end.
const parentEnv = "KLATCH_PARENT_FD"

// WatchParent calls onGone once the parent process has ended, whatever ended it. It does nothing in a process
// that no demo has started.
//
// The parent holds the write end of a pipe and never writes. When it ends, the kernel closes the pipe, which
// works where the parent-death signal does not: that follows the thread that started the child, and Go moves
// between threads.
func WatchParent(getenv func(string) string, onGone func()) error {
	text := getenv(parentEnv)
	if text == "" {
		return nil
	}
	fd, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return fmt.Errorf("%s is %q, not a file descriptor: unset it", parentEnv, text)
	}
	var stat syscall.Stat_t
	if err := syscall.Fstat(int(fd), &stat); err != nil || stat.Mode&syscall.S_IFMT != syscall.S_IFIFO {
		return fmt.Errorf("%s names file descriptor %d, which is not a pipe: unset it", parentEnv, fd)
	}
	syscall.CloseOnExec(int(fd))
	pipe := os.NewFile(uintptr(fd), "parent")
	go func() { // ends with the parent
		defer pipe.Close()
		_, _ = io.Copy(io.Discard, pipe)
		onGone()
	}()
	return nil
}
