package main

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"astraeus.io/astraeus/cmd/astraeus/view"
	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/schema/load"
	"astraeus.io/astraeus/statusapi"
)

func planCommand(env *environment) *cli.Command {
	return &cli.Command{
		Name:  "plan",
		Usage: "show what a commit, or the files as they lie, would change; changes nothing",
		Description: "What is in force comes from --base REV, or else from the cluster at --server; with neither, nothing is.\n" +
			"What machines report comes from --observed FILE, or else from the cluster.",
		Flags: []cli.Flag{
			repoFlag(), refFlag("plan the commit at `REV` instead of the files as they lie"),
			&cli.StringFlag{Name: "base", Usage: "take the commit at `REV` as what is in force, without asking a cluster"},
			&cli.StringFlag{Name: "observed", Usage: "take what machines report from `FILE` (- is standard input)"},
			serverFlag(), outputFlag("table", view.PlanFormats),
			&cli.BoolFlag{Name: "detailed-exitcode", Usage: "exit with 2 when there is anything to change"},
			&cli.StringFlag{Name: "out", Usage: "save the plan to `FILE`"},
			&cli.BoolFlag{Name: "schema", Usage: "print the JSON schema of -o json and stop"},
		},
		Action: func(c *cli.Context) error {
			if err := noArgs(c); err != nil {
				return err
			}
			if c.Bool("schema") {
				return writeSchema(env)
			}
			return env.plan(c)
		},
	}
}

func writeSchema(env *environment) error {
	text := planner.DocumentSchema()
	if len(text) == 0 || text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	_, err := env.stdout.Write(text)
	return err
}

func (e *environment) plan(c *cli.Context) error {
	out, err := view.NewPlan(c.String("output"), e.out(c))
	if err != nil {
		return err
	}
	problems, err := view.NewDiagnostics(c.String("diagnostics"), buildVersion(), e.err(c))
	if err != nil {
		return err
	}
	repo, err := e.repository(c)
	if err != nil {
		return err
	}
	defer repo.close()
	input, err := e.planInput(c, repo)
	if err != nil {
		return err
	}
	plan := planner.Plan(input)
	doc := planner.Document(plan, input, load.SchemaHash())
	doc.Diagnostics = schema.SortDiagnostics(append(doc.Diagnostics, removalNotes(plan, input)...))
	if err := problems.Diagnostics(doc.Diagnostics); err != nil {
		return err
	}
	if err := out.Plan(doc); err != nil {
		return err
	}
	if file := c.String("out"); file != "" {
		if err := savePlan(file, doc, input); err != nil {
			return err
		}
	}
	return planExit(doc, c.Bool("detailed-exitcode"))
}

// planExit tells a commit that cannot be used from one with something to do.
func planExit(doc planner.PlanDocument, detailed bool) error {
	switch {
	case schema.HasErrors(doc.Diagnostics):
		return exitWith(exitInvalid)
	case detailed && len(doc.Changes)+len(doc.Steps)+len(doc.Holds)+len(doc.Drift)+len(doc.Placements) > 0:
		return exitWith(exitChanges)
	}
	return nil
}

// planInput gathers what a plan is made from, out of the places that the command
// line names.
func (e *environment) planInput(c *cli.Context, repo *repository) (planner.Input, error) {
	desired, err := repo.desired(c.Context, c.String("ref"))
	if err != nil {
		return planner.Input{}, err
	}
	input := planner.Input{Desired: desired, Now: time.Now(), Seed: "plan"}
	if file := c.String("observed"); file != "" {
		if input.Observed, err = e.observedFile(file); err != nil {
			return planner.Input{}, err
		}
	}
	switch {
	case c.IsSet("base"):
		if c.IsSet("server") {
			return planner.Input{}, fmt.Errorf("--base and --server both say what is in force: give one")
		}
		err = e.inForceAt(c.Context, repo, c.String("base"), &input)
	case c.IsSet("server") || e.getenv(serverVariable) != "":
		err = e.inForceOn(c, &input)
	}
	if err != nil {
		return planner.Input{}, err
	}
	if err := e.judgeHistory(c.Context, repo, &input); err != nil {
		return planner.Input{}, err
	}
	return input, nil
}

// inForceAt takes the objects of a commit as accepted.
func (e *environment) inForceAt(ctx context.Context, repo *repository, rev string, input *planner.Input) error {
	snapshot, err := repo.snapshot(ctx, rev)
	if err != nil {
		return err
	}
	base, err := e.loader.files(ctx, snapshot.FS(), snapshot.Commit, snapshot.Time)
	if err != nil {
		return err
	}
	if schema.HasErrors(base.Diagnostics) {
		fmt.Fprintf(e.stderr, "note: the base %s has errors itself; only its valid objects are taken as in force\n", view.Short(base.Commit))
	}
	input.Accepted, input.Placed = statusapi.Fit(inForce(base, *input), input.Observed)
	return nil
}

// inForce is what base would have brought into force. Places are the observed
// file's business: a run has one when the file says so. A data location that
// waits for a report counts as chosen, or every base would look unfinished.
func inForce(base *schema.Desired, input planner.Input) schema.Accepted {
	before := planner.Input{Desired: base, Observed: input.Observed, Now: input.Now, Seed: input.Seed}
	accepted, _ := planner.Apply(before.Accepted, nil, planner.Plan(before).Decisions)
	for key, o := range accepted.Objects {
		if o.Object != nil && o.Refused != nil && o.Refused.Hold.Code == schema.CodeDataLocation && base.Objects[key] != nil {
			o.Object, o.Refused = base.Objects[key], nil
		}
	}
	accepted.Head = base.Commit
	return accepted
}

// inForceOn asks a cluster for what is in force and, unless a file says it, for
// what its machines report.
func (e *environment) inForceOn(c *cli.Context, input *planner.Input) error {
	server, err := e.server(c)
	if err != nil {
		return err
	}
	accepted, err := server.accepted(c.Context)
	if err != nil {
		return err
	}
	input.Accepted, input.Placed = accepted.State()
	if c.IsSet("observed") {
		return nil
	}
	return server.get(c.Context, nil, &input.Observed, "v1", "observed")
}

// judgeHistory notes when the planned commit does not follow the one in force (G-5).
func (e *environment) judgeHistory(ctx context.Context, repo *repository, input *planner.Input) error {
	older, newer := input.Accepted.Head, input.Desired.Commit
	if older == "" || newer == "" || older == newer {
		return nil
	}
	follows, err := repo.descends(ctx, older, newer)
	if err != nil {
		return err
	}
	if !follows {
		input.Rewritten = true
		fmt.Fprintf(e.stderr, "note: %s does not follow %s, which is in force; merge or rebase first\n", view.Short(newer), view.Short(older))
	}
	return nil
}
