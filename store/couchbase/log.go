package couchbase

import (
	"sync"

	"github.com/couchbase/gocb/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// setLogger hands gocb a logger before anything of it runs. gocb keeps it in a variable that nothing
// guards, so it is set once for the whole process; this is the one package-level state here.
var setLogger sync.Once

func logTo(logger *zap.Logger) {
	setLogger.Do(func() { gocb.SetLogger(clientLog{logger.Named("gocb").WithOptions(zap.WithCaller(false)).Sugar()}) })
}

// clientLog is gocb's log. Its warnings come several times a second during an outage, which the Store itself
// reports once, and its informational lines are long: both are for debugging. Its debug lines hold keys,
// which may be session ids, so they are dropped.
type clientLog struct{ logger *zap.SugaredLogger }

func (l clientLog) Log(level gocb.LogLevel, _ int, format string, args ...any) error {
	switch level {
	case gocb.LogError:
		l.logger.Logf(zapcore.WarnLevel, format, args...) // whoever meets the error reports it as one
	case gocb.LogWarn, gocb.LogInfo:
		l.logger.Logf(zapcore.DebugLevel, format, args...)
	}
	return nil
}
