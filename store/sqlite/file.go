package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	dirMode  = 0o700
	fileMode = 0o600 // sessions are secrets
)

// createFile makes the file and its directory where they are missing and returns the file's true path.
func createFile(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", noAccess(err)
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return "", noAccess(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, fileMode)
	switch {
	case err == nil:
		if err := errors.Join(file.Close(), syncDir(dir), syncDir(filepath.Dir(dir))); err != nil {
			return "", noAccess(err)
		}
	case errors.Is(err, fs.ErrExist):
		if file, err = os.OpenFile(path, os.O_RDWR, 0); err != nil {
			return "", noAccess(err)
		}
		if err := file.Close(); err != nil {
			return "", noAccess(err)
		}
	default:
		return "", noAccess(err)
	}
	// SQLite puts its log beside the file that a symbolic link leads to.
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", noAccess(err)
	}
	return path, nil
}

// identity is the file that was opened, whatever its path leads to later.
type identity struct {
	path string
	info fs.FileInfo
}

func identify(path string) (identity, error) {
	info, err := os.Stat(path)
	if err != nil {
		return identity{}, noAccess(err)
	}
	return identity{path: path, info: info}, nil
}

// check refuses to go on in a file that has been removed or replaced: what is written there is lost with the last
// process that has it open, and other processes are in another file.
func (i identity) check() error {
	if info, err := os.Stat(i.path); err == nil && os.SameFile(info, i.info) {
		return nil
	}
	return fmt.Errorf("%w: %s was removed or replaced while it was open: put it back, or restart all nodes that use it", ErrNoAccess, i.path)
}

// protect gives the log and its index the mode of the file, because SQLite creates them with what the
// process's mask leaves. They exist from the first transaction until the last connection closes.
func protect(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return noAccess(err)
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		err := os.Chmod(path+suffix, info.Mode().Perm())
		ofAnother := errors.Is(err, fs.ErrPermission) // whose process has seen to it
		if err != nil && !ofAnother {
			return noAccess(err)
		}
	}
	return nil
}

// syncDir makes the names in dir survive the loss of power. A directory that may be searched but not read
// cannot be synchronised; the file system's own journal has to do.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func noAccess(err error) error {
	return fmt.Errorf("%w: %w: choose another path or change its permissions", ErrNoAccess, err)
}
