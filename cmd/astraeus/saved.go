package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/schema"
)

// savedPlan is the file of plan --out.
type savedPlan struct {
	Format string `json:"format"`
	// Digest is of the document; a file that was edited does not fit it.
	Digest   string               `json:"digest"`
	Document planner.PlanDocument `json:"document"`
}

const savedPlanFormat = "astraeus.io/saved-plan/v1"

// savePlan writes the plan in one piece, readable by its owner alone. A plan
// names objects, machines and paths; should a secret have got into it, it is
// refused rather than written.
func savePlan(file string, doc planner.PlanDocument, input planner.Input) error {
	data, err := json.MarshalIndent(savedPlan{savedPlanFormat, doc.Digest(), doc}, "", "  ")
	if err != nil {
		return err
	}
	if name := secretIn(string(data), input); name != "" {
		return fmt.Errorf("the plan is not saved: it holds a secret (%s)", name)
	}
	return writeFile(file, append(data, '\n'))
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
