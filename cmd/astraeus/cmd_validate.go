package main

import (
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"astraeus.io/astraeus/cmd/astraeus/view"
	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/schema"
)

func validateCommand(env *environment) *cli.Command {
	return &cli.Command{
		Name:  "validate",
		Usage: "check the files of a repository, as they lie or at a commit",
		Flags: []cli.Flag{repoFlag(), refFlag("check the commit at `REV` instead of the files as they lie"), outputFlag("table", []string{"table", "json"})},
		Action: func(c *cli.Context) error {
			if err := noArgs(c); err != nil {
				return err
			}
			out, err := view.NewValidate(c.String("output"), env.out(c))
			if err != nil {
				return err
			}
			problems, err := view.NewDiagnostics(c.String("diagnostics"), buildVersion(), env.err(c))
			if err != nil {
				return err
			}
			repo, err := env.repository(c)
			if err != nil {
				return err
			}
			defer repo.close()
			desired, err := repo.desired(c.Context, c.String("ref"))
			if err != nil {
				return err
			}
			list := judge(desired)
			if err := problems.Diagnostics(list); err != nil {
				return err
			}
			if err := out.Validate(validation(desired, list)); err != nil {
				return err
			}
			if schema.HasErrors(list) {
				return exitWith(exitInvalid)
			}
			return nil
		},
	}
}

// judge is everything that is wrong with desired by itself: what loading found,
// and what the planner would refuse or remark with nothing in force yet and
// nothing reported.
func judge(desired *schema.Desired) []schema.Diagnostic {
	plan := planner.Plan(planner.Input{Desired: desired, Now: time.Now(), Seed: "validate"})
	list := append([]schema.Diagnostic{}, desired.Diagnostics...)
	for _, h := range plan.Holds {
		// These wait for reports and clear by themselves (D-32).
		if h.Code != schema.CodeDataLocation {
			list = append(list, holdDiagnostic(h))
		}
	}
	return schema.SortDiagnostics(slices.Concat(list, plan.Notes, membersNote(desired)))
}

func holdDiagnostic(h schema.Hold) schema.Diagnostic {
	return schema.Diagnostic{
		Pos: h.Pos, Severity: schema.SeverityError, Object: h.Object, Field: h.Field, Code: h.Code, Status: h.Status, Message: h.Message,
		Hint: h.Hint,
	}
}

func validation(desired *schema.Desired, list []schema.Diagnostic) view.Validation {
	v := view.Validation{Commit: desired.Commit, Objects: len(desired.Objects), Diagnostics: list}
	for _, d := range list {
		if d.Severity == schema.SeverityError {
			v.Errors++
		} else {
			v.Warnings++
		}
	}
	v.Valid = v.Errors == 0
	return v
}
