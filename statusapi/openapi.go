package statusapi

import (
	"crypto/sha256"
	_ "embed"
	"net/http"
)

// document is the OpenAPI 3.1 description of this API. A test makes it from the
// routes and the types of their bodies.
//
//go:embed openapi.json
var document []byte

var renderedDocument = func() *rendered {
	sum := sha256.Sum256(document)
	return &rendered{json: document, tag: [16]byte(sum[:16])}
}()

func serveOpenAPI(w http.ResponseWriter, r *http.Request) error {
	return respond(w, r, renderedDocument)
}
