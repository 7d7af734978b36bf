package schema

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// HashJSON is the first 128 bits of SHA-256 over v's JSON, in hex. encoding/json
// sorts map keys, so equal values have equal hashes.
func HashJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		// Only a value that no type of this package can hold (a channel, a NaN) fails.
		panic(fmt.Sprintf("schema: hash of %T: %v", v, err))
	}
	return HashBytes(data)
}

// HashBytes is the first 128 bits of SHA-256 over data, in hex.
func HashBytes(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}
