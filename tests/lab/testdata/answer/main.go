// Command answer is a service for tests: it answers /healthz with 200, and with 503
// while the file /data/ill is there.
package main

import (
	"log"
	"net/http"
	"os"
)

func main() {
	http.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		if _, err := os.Stat("/data/ill"); err == nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	log.Fatal(http.ListenAndServe(":8000", nil))
}
