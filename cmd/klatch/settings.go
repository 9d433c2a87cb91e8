package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/knadh/koanf/v2"

	"klatch/session"
)

// settingsReader reads typed settings strictly, whichever source they came from. The first failure sticks.
type settingsReader struct {
	settings *koanf.Koanf
	err      error
}

func (r *settingsReader) fail(key, advice string) {
	if r.err == nil {
		r.err = usageError{fmt.Errorf("%s %q: %s", key, r.settings.String(key), advice)}
	}
}

func (r *settingsReader) bool(key string) bool {
	value, err := strconv.ParseBool(fmt.Sprint(r.settings.Get(key)))
	if err != nil {
		r.fail(key, "use true or false")
	}
	return value
}

func (r *settingsReader) int(key string) int {
	value, err := strconv.Atoi(fmt.Sprint(r.settings.Get(key)))
	if err != nil {
		r.fail(key, "use a whole number")
	}
	return value
}

func (r *settingsReader) duration(key string) time.Duration {
	value, err := time.ParseDuration(fmt.Sprint(r.settings.Get(key)))
	if err != nil {
		r.fail(key, `use a duration, such as "90s" or "30m"`)
	}
	return value
}

// limit reads a duration or never.
func (r *settingsReader) limit(key string) time.Duration {
	if r.settings.String(key) == "never" {
		return session.Never
	}
	value, err := time.ParseDuration(fmt.Sprint(r.settings.Get(key)))
	if err != nil {
		r.fail(key, `use a duration, such as "30m", or never`)
	}
	return value
}
