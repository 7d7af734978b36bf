package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/schema"
)

// savedPlan is the file of plan --out (G-7, X-39).
type savedPlan struct {
	Format string `json:"format"`
	// Checksum is of all that follows; a file that was edited does not fit it.
	Checksum string `json:"checksum"`
	// Digest names the plan: what it would do and what it depends on. A plan is used
	// once, and this is what is remembered of it.
	Digest   string               `json:"digest"`
	Cluster  string               `json:"cluster"`
	Basis    planner.Basis        `json:"basis"`
	Document planner.PlanDocument `json:"document"`
}

const savedPlanFormat = "astraeus.io/saved-plan/v2"

// errIncomplete: a plan of which a part cannot be done is neither saved nor applied.
func errIncomplete(doc planner.PlanDocument) error {
	if doc.Complete {
		return nil
	}
	var why []string
	if schema.HasErrors(doc.Diagnostics) {
		why = append(why, "the commit has errors")
	}
	for i, h := range doc.Holds {
		if i == 3 {
			why = append(why, fmt.Sprintf("%d more are held", len(doc.Holds)-i))
			break
		}
		why = append(why, fmt.Sprintf("%s is held: %s", h.Object, h.Message))
	}
	for _, d := range doc.Diagnostics {
		if d == partialNote {
			why = append(why, d.Message)
		}
	}
	if len(why) == 0 {
		why = append(why, "a file cannot be used")
	}
	err := fmt.Errorf("the plan is not complete (%s); only a plan that can be done as a whole is saved and applied", strings.Join(why, "; "))
	if schema.HasErrors(doc.Diagnostics) {
		return &exitStatus{exitInvalid, err}
	}
	return err
}

// savePlan writes the plan in one piece, readable by its owner alone. A plan
// names objects, machines and paths; should a secret have got into it, it is
// refused rather than written, and so is one that is not complete.
func savePlan(file string, doc planner.PlanDocument, plan schema.Plan, input planner.Input) error {
	if err := errIncomplete(doc); err != nil {
		return fmt.Errorf("not saved: %w", err)
	}
	s := savedPlan{Format: savedPlanFormat, Cluster: clusterOf(input), Basis: planner.BasisOf(plan, input), Document: doc}
	s.Digest = schema.HashJSON([]any{s.Cluster, s.Basis, doc.Digest()})
	basis, err := json.Marshal(s.Basis)
	if err != nil {
		return err
	}
	document, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	s.Checksum = checksum(s.Format, s.Digest, s.Cluster, basis, document)
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if name := secretIn(string(data), input); name != "" {
		return fmt.Errorf("the plan is not saved: it holds a secret (%s)", name)
	}
	return writeFile(file, append(data, '\n'))
}

// checksum is over the JSON as it is written, without its blanks.
func checksum(format, digest, cluster string, basis, document []byte) string {
	return schema.HashJSON([]string{format, digest, cluster, string(basis), string(document)})
}

// clusterOf is the name of the cluster that a plan is for, "" when nothing says it.
func clusterOf(input planner.Input) string {
	for key := range input.Desired.Objects {
		if key.Kind == schema.KindCluster {
			return key.Name
		}
	}
	for key := range input.Accepted.Objects {
		if key.Kind == schema.KindCluster {
			return key.Name
		}
	}
	return ""
}

// maxSavedPlan bounds what is read of a file that is somebody else's.
const maxSavedPlan = 256 << 20

// readSavedPlan reads a saved plan strictly. Errors: it is none, was edited, is of
// files that lie in no commit, or is not complete.
func readSavedPlan(r io.Reader, name string) (*savedPlan, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxSavedPlan+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxSavedPlan {
		return nil, fmt.Errorf("%s is too large for a saved plan", name)
	}
	var raw struct {
		Format, Checksum, Digest, Cluster string
		Basis, Document                   json.RawMessage
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&raw); err != nil {
		return nil, fmt.Errorf("%s is not a saved plan: %w", name, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s is not a saved plan: something follows it", name)
	}
	if raw.Format != savedPlanFormat {
		return nil, fmt.Errorf("%s is not a saved plan that this program knows: its format is %q, not %q", name, raw.Format, savedPlanFormat)
	}
	var basis, document bytes.Buffer
	if json.Compact(&basis, raw.Basis) != nil || json.Compact(&document, raw.Document) != nil ||
		checksum(raw.Format, raw.Digest, raw.Cluster, basis.Bytes(), document.Bytes()) != raw.Checksum {
		return nil, fmt.Errorf("%s was changed after it was saved: plan again", name)
	}
	s := &savedPlan{Format: raw.Format, Checksum: raw.Checksum, Digest: raw.Digest, Cluster: raw.Cluster}
	dec = json.NewDecoder(&basis)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s.Basis); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if s.Document, err = planner.ParseDocument(document.Bytes()); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if s.Document.Inputs.Commit == "" {
		return nil, fmt.Errorf("%s was planned from files as they lie: only a commit can be applied; plan with --ref", name)
	}
	return s, errIncomplete(s.Document)
}

func writeFile(file string, data []byte) error {
	temp, err := os.CreateTemp(filepath.Dir(file), ".astraeus-plan-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(data)
	if closeErr := temp.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return os.Rename(temp.Name(), file)
}

// secretName is how variables that hold secrets are called.
var secretName = regexp.MustCompile(`(?i)(token|secret|passw|passphrase|credential|api_?key|private_?key|access_?key)`)

// shortestSecret keeps "1" or "yes" from being searched for everywhere.
const shortestSecret = 6

// secretIn names the first secret found in text: credentials in a URL, or the
// value of a worker's variable that is called like one.
func secretIn(text string, input planner.Input) string {
	if userinfo.MatchString(text) {
		return "a URL with credentials"
	}
	found := ""
	visit := func(o *schema.Object) {
		for _, env := range environments(o) {
			for name, value := range env {
				if len(value) >= shortestSecret && secretName.MatchString(name) && strings.Contains(text, value) {
					found = "the variable " + name + " of " + o.Key.String()
				}
			}
		}
	}
	for _, o := range input.Desired.Objects {
		visit(o)
	}
	for _, a := range input.Accepted.Objects {
		visit(a.Object)
	}
	return found
}

// environments are the variables of every template of an object.
func environments(o *schema.Object) (out []map[string]string) {
	switch spec := o.Spec.(type) {
	case *schema.RunSpec:
		for _, g := range spec.Groups() {
			out = append(out, g.TaskTemplate.Env)
		}
	case *schema.ReplicaGroupSpec:
		out = append(out, spec.TaskTemplate.Env)
	case *schema.DriveSpec:
		if spec.Fill != nil {
			out = append(out, spec.Fill.Template.Env)
		}
	case *schema.ModelSpec:
		if spec.Fill != nil {
			out = append(out, spec.Fill.Template.Env)
		}
	}
	return out
}
