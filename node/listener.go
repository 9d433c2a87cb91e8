package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"
)

// listener is one HTTP server of the node.
type listener struct {
	key    string // its configuration key
	server *http.Server
	socket net.Listener
}

// listen binds an address at once, so that a port in use is found before anything else is started.
func listen(key, address string, tlsConfig *tls.Config, logger *zap.Logger) (*listener, error) {
	socket, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("--%s %s is in use by another process: stop it or choose another address", key, address)
	}
	if err != nil {
		return nil, fmt.Errorf("--%s %s: %w", key, address, err)
	}
	return &listener{key: key, socket: socket, server: &http.Server{
		TLSConfig:         tlsConfig,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          zap.NewStdLog(logger.With(zap.String("listener", key))),
	}}, nil
}

func (l *listener) address() string { return l.socket.Addr().String() }

// serve answers requests with handler until shutdown.
func (l *listener) serve(handler http.Handler, running *sync.WaitGroup, logger *zap.Logger) {
	l.server.Handler = handler
	running.Go(func() {
		serve := func() error { return l.server.Serve(l.socket) }
		if l.server.TLSConfig != nil {
			serve = func() error { return l.server.ServeTLS(l.socket, "", "") }
		}
		if err := serve(); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("a listener failed", zap.String("listener", l.key), zap.Error(err))
		}
	})
}

// shutdown stops to accept and waits for the requests under way, bounded by ctx.
func (l *listener) shutdown(ctx context.Context) error {
	err := l.server.Shutdown(ctx)
	if err != nil {
		_ = l.server.Close() // the bound has passed; what is still open ends now
		err = fmt.Errorf("requests on --%s did not end in time: %w", l.key, err)
	}
	_ = l.socket.Close() // a listener that was never served is not known to the server
	return err
}
