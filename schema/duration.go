package schema

import "time"

// Duration is a time.Duration that files and JSON write as "5m" or "30s".
type Duration time.Duration

// Std is the standard library's form.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String is the standard library's text.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes "5m0s".
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads what time.ParseDuration reads.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return err
	}
	*d = Duration(parsed)
	return nil
}
