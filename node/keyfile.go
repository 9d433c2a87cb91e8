package node

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"klatch/keyring"
)

// keyFile is the file of the gossip keys; the empty path stands for none.
type keyFile string

var _ keyring.Keeper = keyFile("")

// Load implements keyring.Keeper.
func (f keyFile) Load() ([][]byte, error) {
	if f == "" {
		return nil, nil
	}
	lines, err := readSecretLines("gossip-key-file", string(f))
	if err != nil {
		return nil, err
	}
	var keys [][]byte
	for i, line := range lines {
		key, err := keyring.ParseKey(line)
		if err != nil {
			return nil, fmt.Errorf("%w: gossip-key-file: key %d of %s: %w", ErrConfig, i+1, f, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// Save implements keyring.Keeper. Whoever reads the file meanwhile sees the old one or the new one, whole.
func (f keyFile) Save(keys [][]byte) (failed error) {
	defer func() {
		if failed != nil {
			failed = fmt.Errorf("in use, but not saved: %w", failed)
		}
	}()
	path, err := filepath.EvalSymlinks(string(f)) // a link is to remain one
	if err != nil {
		return err
	}
	text := bytes.NewBufferString("# The first key encrypts, all decrypt. Written by klatch keyring.\n")
	for _, key := range keys {
		fmt.Fprintln(text, base64.StdEncoding.EncodeToString(key))
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), ".gossip-key-*") // for the owner only
	if err != nil {
		return err
	}
	_, err = temporary.Write(text.Bytes())
	if err == nil {
		err = temporary.Sync()
	}
	if err = errors.Join(err, temporary.Close()); err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary.Name()))
	}
	return nil
}
