package main

import (
	"context"
	"errors"
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
		Description: "What is in force comes from --base REV, or else from the cluster at --server, in " + serverVariable + "\n" +
			"or of a lab started here; with none of these, nothing is, as in a new cluster. What machines report\n" +
			"comes from --observed FILE, or else from the cluster. Both are said on standard error.",
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
	text, err := view.PlanSchema()
	if err != nil {
		return err
	}
	_, err = env.stdout.Write(append(text, '\n'))
	return err
}

func (e *environment) plan(c *cli.Context) error {
	// Formats are looked at before anything is fetched.
	if _, err := view.NewPlan(c.String("output"), e.out(c)); err != nil {
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
	input, from, err := e.planInput(c, repo)
	if err != nil {
		return err
	}
	e.sayOrigins(c, from)
	plan := planner.Plan(input)
	doc := planner.Document(plan, input, load.SchemaHash())
	if from.Partial {
		doc.Complete = false
		doc.Diagnostics = append(doc.Diagnostics, partialNote)
	}
	if err := problems.Diagnostics(doc.Diagnostics); err != nil {
		return err
	}
	out, err := view.NewPlanOf(c.String("output"), e.out(c), view.PlanContext{Origins: from, Names: namesIn(input)})
	if err != nil {
		return err
	}
	if err := out.Plan(doc); err != nil {
		return err
	}
	if file := c.String("out"); file != "" {
		if err := savePlan(file, doc, plan, input); err != nil {
			return err
		}
	}
	return planExit(doc, c.Bool("detailed-exitcode"))
}

// sayOrigins tells a person what the plan is made from. Programs that read
// diagnostics find it in the document.
func (e *environment) sayOrigins(c *cli.Context, from view.Origins) {
	if format := c.String("diagnostics"); format == "json" || format == "sarif" {
		return
	}
	fmt.Fprintf(e.stderr, "in force: %s\nobserved: %s\n", view.Plain(from.InForce), view.Plain(from.Observed))
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

// What a plan says when nothing names a place.
const (
	newCluster     = "nothing: as a new cluster"
	nobodyReported = "nothing: no machine has reported"
)

// planInput gathers what a plan is made from, out of the places that the command
// line names.
func (e *environment) planInput(c *cli.Context, repo *repository) (input planner.Input, from view.Origins, err error) {
	from = view.Origins{InForce: newCluster, Observed: nobodyReported}
	if c.IsSet("base") && (c.String("base") == "" || c.IsSet("server")) {
		if c.String("base") == "" {
			return input, from, errors.New("--base is empty: give a commit, a branch or a tag")
		}
		return input, from, errors.New("--base and --server both say what is in force: give one")
	}
	desired, err := repo.desired(c.Context, c.String("ref"))
	if err != nil {
		return input, from, err
	}
	input = planner.Input{Desired: desired, Now: time.Now(), Seed: "plan"}
	if file := c.String("observed"); file != "" {
		if input.Observed, err = e.observedFile(file); err != nil {
			return input, from, err
		}
		from.Observed = "file " + file
	}
	if c.IsSet("base") {
		from.InForce, err = e.inForceAt(c.Context, repo, c.String("base"), &input)
	} else {
		err = e.inForceOn(c, &input, &from)
	}
	if err != nil {
		return input, from, err
	}
	return input, from, e.judgeHistory(c.Context, repo, &input)
}

// inForceAt takes the objects of a commit as accepted, and says which commit.
func (e *environment) inForceAt(ctx context.Context, repo *repository, rev string, input *planner.Input) (from string, err error) {
	snapshot, err := repo.snapshot(ctx, rev)
	if err != nil {
		return "", err
	}
	base, err := e.loader.files(ctx, snapshot.FS(), snapshot.Commit, snapshot.Time)
	if err != nil {
		return "", err
	}
	if schema.HasErrors(base.Diagnostics) {
		fmt.Fprintf(e.stderr, "note: the base %s has errors itself; only its valid objects are taken as in force\n", view.Short(base.Commit))
	}
	input.Accepted, input.Placed = statusapi.Fit(inForce(base, *input), input.Observed)
	return fmt.Sprintf("commit %s (--base %s)", base.Commit, rev), nil
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

// inForceOn asks a cluster, if there is one, for what is in force and, unless a
// file says it, for what its machines report.
func (e *environment) inForceOn(c *cli.Context, input *planner.Input, from *view.Origins) error {
	server, err := e.findServer(c)
	if server == nil || err != nil {
		return err
	}
	accepted, err := server.accepted(c.Context)
	if err != nil {
		return err
	}
	from.InForce = fmt.Sprintf("%s (%s)", server.base, server.from)
	if accepted.Head != "" {
		from.InForce = "commit " + accepted.Head + " at " + from.InForce
	}
	input.Accepted, input.Placed = accepted.State()
	if from.Partial = !accepted.Complete; from.Partial {
		input.Desired = within(input.Desired, accepted)
	}
	if c.IsSet("observed") {
		return nil
	}
	from.Observed = fmt.Sprintf("%s (%s)", server.base, server.from)
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
