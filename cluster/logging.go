package cluster

import (
	"bytes"
	"log"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

const (
	// repeatAfter is how long a line of memberlist is written only once, whoever caused it.
	repeatAfter = time.Minute
	// strangerAfter is how long a stranger is written of only once. One with the wrong label or key would otherwise
	// fill the log with a line for each of its packets.
	strangerAfter = 6 * time.Hour
	// maxLines bounds how many lines are remembered for that.
	maxLines = 256
)

// logWriter passes memberlist's log on, each line at the level that it bears in its text.
type logWriter struct {
	log    *zap.Logger
	now    func() time.Time
	closed atomic.Bool // memberlist's timers may still go off, and write, after its end

	strangers tally // by reason

	mu      sync.Mutex // guards written
	written map[string]time.Time
}

func newLogWriter(logger *zap.Logger, now func() time.Time) *logWriter {
	return &logWriter{log: logger.Named("memberlist"), now: now, written: map[string]time.Time{}}
}

func (w *logWriter) logger() *log.Logger { return log.New(w, "", 0) }

func (w *logWriter) Write(p []byte) (int, error) {
	if w.closed.Load() {
		return len(p), nil
	}
	level, text := parseLine(string(bytes.TrimSpace(p)))
	if reason, host, ok := strangerOf(text); ok {
		w.stranger(reason, host, text)
		return len(p), nil
	}
	if what, _, _ := strings.Cut(text, " from="); level >= zapcore.WarnLevel && w.repeated(what, repeatAfter) {
		level = zapcore.DebugLevel
	}
	if entry := w.log.Check(level, text); entry != nil {
		entry.Write()
	}
	return len(p), nil
}

var lineLevels = []struct {
	mark  string
	level zapcore.Level
}{
	{"[DEBUG]", zapcore.DebugLevel},
	{"[INFO]", zapcore.InfoLevel},
	{"[WARN]", zapcore.WarnLevel},
	{"[ERR]", zapcore.ErrorLevel},
	{"[ERROR]", zapcore.ErrorLevel},
}

func parseLine(line string) (zapcore.Level, string) {
	for _, l := range lineLevels {
		if text, ok := strings.CutPrefix(line, l.mark); ok {
			return l.level, strings.TrimPrefix(strings.TrimSpace(text), "memberlist: ")
		}
	}
	return zapcore.WarnLevel, line
}

// stranger counts a message of a stranger, and writes of the first one.
func (w *logWriter) stranger(reason, host, text string) {
	w.strangers.add(reason)
	if w.repeated(reason+" "+host, strangerAfter) {
		return
	}
	w.log.Warn("refused what a stranger sent; further messages of its kind are counted only",
		zap.String("reason", reason), zap.String("from", host), zap.String("refusal", text), zap.String("advice", strangerAdvice[reason]))
}

// repeated reports whether something was written of a short while ago, and takes it for written now if it was not.
func (w *logWriter) repeated(what string, lately time.Duration) bool {
	now := w.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if at, ok := w.written[what]; ok && now.Sub(at) < lately {
		return true
	}
	if len(w.written) >= maxLines {
		clear(w.written)
	}
	w.written[what] = now
	return false
}
