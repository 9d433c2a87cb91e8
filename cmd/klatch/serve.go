package main

import (
	"context"
	"fmt"
	"os"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"klatch/internal/demo"
	"klatch/node"
)

func newServe() *cobra.Command {
	var configPath string
	var printConfig bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run one node",
		Long: `Run one node until SIGTERM or SIGINT; then it says not-ready, serves on until balancers have noticed,
finishes what is under way, leaves the cluster and exits with 0.

Settings come from flags, then from KLATCH_* in the environment, then from the YAML file, then from the
defaults. Keys are the names of the flags: session.idle is KLATCH_SESSION_IDLE.`,
		Example: `  klatch serve
  klatch serve --name n1 --join 10.0.0.2:7946,10.0.0.3:7946 --config /etc/klatch.yaml
  KLATCH_STORE_USER=klatch KLATCH_STORE_PASSWORD=… klatch serve --store couchbase://db1,db2/klatch
  klatch serve --print-config`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			settings, err := loadSettings(cmd.Flags(), configPath, os.Environ())
			if err != nil {
				return err
			}
			config, err := nodeConfig(settings)
			if err != nil {
				return err
			}
			config.StorePassword = node.Secret(os.Getenv(storePasswordEnv))
			if err := config.Validate(); err != nil {
				return err
			}
			if printConfig {
				if err := settings.Set("store", node.RedactURL(config.Store)); err != nil {
					return err
				}
				text, err := settings.Marshal(yaml.Parser())
				if err != nil {
					return err
				}
				_, err = cmd.OutOrStdout().Write(text)
				return err
			}
			logger, err := newLogger(settings.String("log-level"), settings.String("log-format"))
			if err != nil {
				return err
			}
			return serve(cmd.Context(), config, logger.With(zap.String("node", config.Name)))
		},
	}
	defineSettings(cmd.Flags())
	cmd.Flags().StringVar(&configPath, "config", "", "YAML `file` with settings")
	cmd.Flags().BoolVar(&printConfig, "print-config", false, "print the merged settings and exit")
	return cmd
}

func serve(ctx context.Context, config node.Config, logger *zap.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := demo.WatchParent(os.Getenv, cancel); err != nil {
		return err
	}
	n, err := node.Start(ctx, config, release, logger)
	if err != nil {
		return err
	}
	if err := n.Run(ctx); err != nil {
		return err
	}
	logger.Info("stopped")
	return nil
}

func newLogger(level, format string) (*zap.Logger, error) {
	config := zap.NewProductionConfig()
	config.Sampling = nil
	config.DisableStacktrace = true
	config.EncoderConfig.EncodeTime = zapcore.ISO8601TimeEncoder
	switch format {
	case "json":
	case "console":
		config.Encoding = "console"
	default:
		return nil, usageError{fmt.Errorf("log-format %q: use console or json", format)}
	}
	parsed, err := zap.ParseAtomicLevel(level)
	if err != nil {
		return nil, usageError{fmt.Errorf("log-level %q: use debug, info, warn or error", level)}
	}
	config.Level = parsed
	config.DisableCaller = true
	return config.Build()
}
