package store

import (
	"context"
	"log/slog"

	"go.uber.org/zap/zapcore"
)

// slogCore hands etcd's log lines on, a level lower than etcd calls them: what it
// calls information is a page at each start, and its warnings and errors are about
// choices of ours (one port, simple tokens, a store that is new). What concerns a
// caller comes back as an error of a call, and is logged where that is handled.
type slogCore struct{ log *slog.Logger }

func slogLevel(level zapcore.Level) slog.Level {
	switch {
	case level > zapcore.ErrorLevel:
		return slog.LevelError
	case level == zapcore.ErrorLevel:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

func (c slogCore) Enabled(level zapcore.Level) bool {
	return c.log.Enabled(context.Background(), slogLevel(level))
}

func (c slogCore) With(fields []zapcore.Field) zapcore.Core {
	return slogCore{slog.New(c.log.Handler().WithAttrs(attrs(fields)))}
}

func (c slogCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) {
		return checked.AddCore(entry, c)
	}
	return checked
}

func (c slogCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	c.log.LogAttrs(context.Background(), slogLevel(entry.Level), "etcd: "+entry.Message, attrs(fields)...)
	return nil
}

func (slogCore) Sync() error { return nil }

func attrs(fields []zapcore.Field) []slog.Attr {
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(enc)
	}
	out := make([]slog.Attr, 0, len(enc.Fields))
	for k, v := range enc.Fields {
		out = append(out, slog.Any(k, v))
	}
	return out
}
