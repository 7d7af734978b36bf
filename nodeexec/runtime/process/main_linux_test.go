package process

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	MaybeShim()
	goleak.VerifyTestMain(m)
}
