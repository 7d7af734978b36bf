package main

import (
	"errors"
	"net/url"
	"regexp"
	"strings"
)

var userinfo = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^/\s"'@]*@`)

// redact takes credentials out of URLs in foreign text, such as a flag's value in
// an error message. It is the last resort: what is known to be secret has a type
// that shows nothing.
func redact(text string) string { return userinfo.ReplaceAllString(text, "${1}xxxxx@") }

// serverURL is the status API's address. It holds no credentials: they would end
// up in process lists and logs.
type serverURL struct{ *url.URL }

func parseServerURL(text string) (serverURL, error) {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return serverURL{}, errors.New("the server is not a URL such as http://127.0.0.1:7600")
	}
	if u.User != nil {
		return serverURL{}, errors.New("the server's URL must not hold credentials")
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return serverURL{}, errors.New("the server's URL must begin with http:// or https://")
	}
	return serverURL{u}, nil
}
