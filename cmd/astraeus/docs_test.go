package main

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

// The reference of the kinds names every field, and its examples are a repository
// without errors. G-2
func TestKindsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/kinds.md")
	require.NoError(t, err)
	for _, spec := range []schema.Spec{
		&schema.ClusterSpec{}, &schema.OrgSpec{}, &schema.MachineSpec{}, &schema.WorkspaceSpec{}, &schema.HostPathGrantSpec{}, &schema.DriveSpec{},
		&schema.VolumeSpec{}, &schema.RunSpec{}, &schema.ReplicaGroupSpec{}, &schema.EndpointSpec{}, &schema.ModelSpec{}, &schema.DeletionSpec{},
	} {
		require.Contains(t, string(text), "\n## "+string(spec.Kind())+"\n")
		for _, field := range fieldsOf(reflect.TypeOf(spec).Elem()) {
			require.Regexp(t, "`[^`\n]*\\b"+regexp.QuoteMeta(field)+"\\b[^`\n]*`", string(text), "%s: %s", spec.Kind(), field)
		}
	}
	dir := t.TempDir()
	for _, block := range regexp.MustCompile("(?s)```cue\n// (\\S+)\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		file := filepath.Join(dir, block[1])
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(block[2]), 0o600))
	}
	loader := newLoader()
	defer loader.close()
	desired, err := loader.files(context.Background(), os.DirFS(dir), "", time.Time{})
	require.NoError(t, err)
	require.Len(t, desired.Objects, 13)
	for _, d := range judge(desired) {
		require.NotEqual(t, schema.SeverityError, d.Severity, "%s: %s", d.Pos, d.Message)
	}
}

// fieldsOf are the names of a type's fields in files, those of its parts included.
func fieldsOf(t reflect.Type) (names []string) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return fieldsOf(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" && name != "-" {
				names = append(append(names, name), fieldsOf(t.Field(i).Type)...)
			}
		}
	}
	return names
}

// Links of the documents lead to files. docs/performance.md is written with the measurements.
func TestLinksLeadSomewhere(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	for _, file := range append(files, "../../README.md") {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, link := range regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllStringSubmatch(string(text), -1) {
			if filepath.Base(link[1]) == "performance.md" {
				continue
			}
			_, err := os.Stat(filepath.Join(filepath.Dir(file), link[1]))
			require.NoError(t, err, "%s: %s", file, link[1])
		}
	}
}
