package main

import (
	"fmt"
	"os"
	"strings"
)

// apiToken returns the token that a command sends. The second source is the node's own setting: in a container
// without a shell, a command cannot be given what a file holds.
func apiToken() (string, error) {
	if token := os.Getenv("KLATCH_API_TOKEN"); token != "" {
		return token, nil
	}
	path := os.Getenv("KLATCH_API_TOKEN_FILE")
	if path == "" {
		return "", nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("KLATCH_API_TOKEN_FILE: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return line, nil
		}
	}
	return "", fmt.Errorf("KLATCH_API_TOKEN_FILE: %s is empty", path)
}
